"""A start does not look for garbage in what its imports make, and a started handler collects as usual."""

from __future__ import annotations

from benchmarks.cold_start import HANDLER, STARTS, start

COUNTED = "import gc; seen = []; gc.callbacks.append(lambda phase, info: seen.append(phase)); "


def test_the_handlers_imports_are_made_without_collecting_and_collection_is_on_afterwards() -> None:
    frozen = "assert gc.isenabled() and gc.get_freeze_count() > 10_000, gc.get_freeze_count()"
    start(f"{COUNTED}{STARTS[HANDLER]}; {frozen}; assert len(seen) < 100, len(seen)")
