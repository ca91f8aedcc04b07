"""Two thousand seeds of the whole system: no law is broken, and everything that must happen sometimes has happened."""

from collections.abc import Mapping

import pytest

from lab.simulation.figures import Figures, never_reached, simulate, total
from lab.simulation.run import SCENARIOS

pytestmark = pytest.mark.slow

SEEDS = 100
SEEDS_OF: Mapping[str, int] = {"mapping-large": 10, "triplets": 400}
"""Fewer seeds where a run takes ten times as long. More for triplets, whose deliveries meet a busy request most often:
only there does the function change one message's visibility often enough to meet each fault."""


@pytest.fixture(scope="module")
def figures() -> dict[str, Figures]:
    """The figures of seeds that the quick tests do not run."""
    quick = [name for name in SCENARIOS if name not in SEEDS_OF]
    found = simulate(quick, first=1000, seeds=SEEDS, seconds=None)
    for name, seeds in SEEDS_OF.items():
        found |= simulate([name], first=1000, seeds=seeds, seconds=None)
    return found


def test_no_law_is_broken_in_two_thousand_runs(figures: dict[str, Figures]) -> None:
    assert total(figures.values()).counts["seeds"] >= 2_000
    assert {name: each.broken for name, each in figures.items() if each.broken} == {}


def test_everything_that_must_happen_happens(figures: dict[str, Figures]) -> None:
    assert never_reached(total(figures.values()).reached) == []
