"""Every start that is compared comes to its end, and what is left out of one comparison is left out of both."""

from __future__ import annotations

import pytest

from benchmarks.cold_start import FLOOR, PYTHON, STARTS, import_times, measure, start


def test_every_start_comes_to_its_end_and_has_its_figures() -> None:
    (measured,) = measure(1)
    assert list(measured) == list(STARTS)
    assert all(one["cpu_ms"] > 0 for one in measured.values())
    assert measured[FLOOR]["memory_mb"] > measured[PYTHON]["memory_mb"] > 0


def test_who_imports_without_garbage_collection_stands_beside_the_same_with_it() -> None:
    uncollected = [statement for name, statement in STARTS.items() if "without garbage collection" in name]
    assert len(uncollected) == 2
    assert all(one.removeprefix("import gc; gc.disable(); ") in STARTS.values() for one in uncollected)


def test_a_start_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)import nothing.* failed: .*ModuleNotFoundError"):
        start("import nothing_of_this_name; import os")


def test_the_times_of_imports_are_those_of_what_is_imported() -> None:
    times = import_times("import wave", 1)
    assert "wave" in times
    assert "boto3" not in times
