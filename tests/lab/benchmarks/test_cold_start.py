"""Cold start: every start, and the floors."""

from __future__ import annotations

import pytest

from lab.benchmarks.cold_start import FLOOR, PYTHON, STARTS, measure, start


@pytest.mark.slow
def test_every_start_has_its_figures() -> None:
    measured = {one.name: one for one in measure(1)}
    assert list(measured) == list(STARTS)
    assert all(one.cpu_ms > 0 for one in measured.values())
    assert measured[FLOOR].memory_mb > measured[PYTHON].memory_mb > 0


def test_starts_without_garbage_collection_have_a_twin() -> None:
    uncollected = [statement for name, statement in STARTS.items() if "without garbage collection" in name]
    assert len(uncollected) == 2
    assert all(one.removeprefix("import gc; gc.disable(); ") in STARTS.values() for one in uncollected)


def test_start_raises_when_its_statement_fails() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)import nothing.* failed: .*ModuleNotFoundError"):
        start("import nothing_of_this_name; import os")
