"""What a start does besides importing: no looking for garbage meanwhile, and one core for all threads where that is set."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks.cold_start import ENVIRONMENT, HANDLER, STARTS, start

COUNTED = "import gc; seen = []; gc.callbacks.append(lambda phase, info: seen.append(phase)); "


def test_the_handlers_imports_are_made_without_collecting_and_collection_is_on_afterwards() -> None:
    frozen = "assert gc.isenabled() and gc.get_freeze_count() > 10_000, gc.get_freeze_count()"
    start(f"{COUNTED}{STARTS[HANDLER]}; {frozen}; assert len(seen) < 100, len(seen)")


@pytest.mark.skipif(sys.platform != "linux", reason="threads are held to a core on Linux only, which Lambda is")
@pytest.mark.parametrize("one_core", ["true", "false", None])
def test_every_thread_of_the_handler_is_on_one_core_where_that_is_set(
    monkeypatch: pytest.MonkeyPatch, one_core: str | None
) -> None:
    if one_core is not None:
        monkeypatch.setitem(ENVIRONMENT, "ONE_CORE", one_core)
    expected = 1 if one_core == "true" else len(os.sched_getaffinity(0))
    here = "len(os.sched_getaffinity(0))"
    thread = "len(handler.consumer.executor.submit(os.sched_getaffinity, 0).result())"
    start(f"import os; {STARTS[HANDLER]}; assert ({here}, {thread}) == ({expected}, {expected})")
