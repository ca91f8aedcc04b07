"""The mutants outside the handler: their score, and a few that the simulation judges again."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.mutation.mutants import Workbench
from lab.simulation.mutants.change import Change, Outdated
from lab.simulation.mutants.changes import CHANGES
from lab.simulation.mutants.judging import expected, judge, problems
from lab.simulation.run import SCENARIOS

FEWEST = 30

DELETED = "the worker deletes a message whose handler failed"
AGAIN = (
    DELETED,
    "the heartbeat takes a throttled entry for final",
    pytest.param("the commit has no fence", marks=pytest.mark.slow),
)
"""The mutants that a test judges again, each by the run that its recorded judgement names."""


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.defect)
def test_mutant_fits_the_code_as_it_is(change: Change) -> None:
    assert change.mutant.source
    assert set(change.scenarios) <= set(SCENARIOS)


def test_recorded_score_has_no_problem() -> None:
    assert len(CHANGES) >= FEWEST
    assert max(Counter(change.defect for change in CHANGES).values()) == 1
    assert list(expected()) == [change.defect for change in CHANGES]
    assert problems(expected()) == []


def test_survivor_without_a_guard_is_a_problem() -> None:
    found = {**expected(), DELETED: ""}

    assert f"{DELETED}: lives, and no guard explains it" in problems(found)


def test_mutant_is_outdated_when_its_piece_is_gone() -> None:
    change = Change("defect", "oneslot/worker/pool.py", "no such piece", "", ())

    with pytest.raises(Outdated):
        assert change.mutant


@pytest.mark.parametrize("defect", AGAIN)
def test_mutant_dies_again_in_its_recorded_run(bench: Workbench, defect: str) -> None:
    change = next(each for each in CHANGES if each.defect == defect)
    known = expected()[defect]

    assert judge(bench, change, known)
