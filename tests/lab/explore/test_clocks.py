"""Clocks apart in the explorer: they take over a live lease, and the fence prevents a second effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.explore.ours import OURS
from lab.explore.scenarios import APART, BOOK_AND_CANCEL_APART, LAST_SLOT_APART, ONE_REQUEST
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import Scenario
from oneslot.runtime.effects import Update
from oneslot.runtime.stores import dynamodb as ledger

SMALL = (
    replace(APART, faults=1, expiries=0),
    replace(LAST_SLOT_APART, faults=0, expiries=0),
    replace(BOOK_AND_CANCEL_APART, faults=0, expiries=0),
)


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_clocks_apart_break_only_e2(scenario: Scenario) -> None:
    assert explore(replace(scenario, exempt=()), OURS).laws_broken == ("E2",)
    exploration = explore(scenario, OURS)
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()


def _without_a_fence(**attributes: object) -> Update:
    update = Update(**attributes)  # type: ignore[arg-type]
    assert isinstance(update.expect, dict)
    expect = {name: value for name, value in update.expect.items() if name != "claimed_by"}
    return replace(update, expect=expect)


def test_clocks_apart_break_i7_without_the_fence() -> None:
    """Two clocks suffice: no crash, no lost answer, no ended lease."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "Update", _without_a_fence)
        assert explore(replace(ONE_REQUEST, faults=0, expiries=0), OURS).laws_broken == ()
        assert "I7" in explore(replace(APART, faults=0, expiries=0), OURS).laws_broken
