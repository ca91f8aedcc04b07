"""Cold start: every start, the floors, and the breakdown of imports and packages."""

from __future__ import annotations

import pytest

from lab.benchmarks.cold_start import FLOOR, PYTHON, STARTS, import_times, measure, package, package_sizes, start


@pytest.mark.slow
def test_every_start_has_its_figures() -> None:
    (measured,) = measure(1)
    assert list(measured) == list(STARTS)
    assert all(one["cpu_ms"] > 0 for one in measured.values())
    assert measured[FLOOR]["memory_mb"] > measured[PYTHON]["memory_mb"] > 0


def test_starts_without_garbage_collection_have_a_twin() -> None:
    uncollected = [statement for name, statement in STARTS.items() if "without garbage collection" in name]
    assert len(uncollected) == 2
    assert all(one.removeprefix("import gc; gc.disable(); ") in STARTS.values() for one in uncollected)


def test_start_raises_when_its_statement_fails() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)import nothing.* failed: .*ModuleNotFoundError"):
        start("import nothing_of_this_name; import os")


def test_import_times_cover_the_imported_modules() -> None:
    times = import_times("import wave", 1)
    assert "wave" in times
    assert "boto3" not in times


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("json.decoder", "standard library"),
        ("botocore.endpoint", "botocore"),
        ("aws_lambda_powertools.utilities.batch.base", "aws_lambda_powertools.utilities.batch"),
        ("aws_lambda_powertools.logging", "aws_lambda_powertools"),
    ],
)
def test_imports_are_summed_by_package(module: str, expected: str) -> None:
    assert package(module) == expected


def test_package_sizes_cover_what_is_deployed() -> None:
    sizes = package_sizes()
    assert {"aws-lambda-powertools", "our own code"} <= set(sizes)
    assert all(size > 0 for size in sizes.values())
