"""Fixtures of the lab's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.simulation.run import points
from lab.simulation.world.points import Instrumented

HERE = Path(__file__).parent
PRODUCT = (
    "documentation",
    "benchmarks/test_cost.py",
    "benchmarks/test_units.py",
    "explore/test_both_ways.py",
    "explore/test_counterexample.py",
    "explore/test_lambda_handler.py",
    "explore/test_short.py",
    "explore/test_weakened.py",
    "mutants/test_mutants.py",
    "simulation/test_regressions.py",
)
"""What `make test` needs of the lab: no figure, no record and no tool of its own is tested here."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of the lab but those of `PRODUCT`, before -m selects by the mark."""
    for item in items:
        if item.path.is_relative_to(HERE) and not any(item.path.is_relative_to(HERE / room) for room in PRODUCT):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="module")
def modules() -> Iterator[Instrumented]:
    """The simulated modules with their points, which other files' tests must not have."""
    with points() as instrumented:
        yield instrumented
