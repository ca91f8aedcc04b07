"""Fixtures of the lab's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.mutation.mutants import Workbench
from lab.simulation.run import points
from lab.simulation.world.points import Instrumented


@pytest.fixture(scope="session")
def bench() -> Iterator[Workbench]:
    """One workbench for all mutants, because its server loads the libraries once."""
    with Workbench() as made:
        yield made


@pytest.fixture(scope="module")
def modules() -> Iterator[Instrumented]:
    """The simulated modules with their points, which other files' tests must not have."""
    with points() as instrumented:
        yield instrumented
