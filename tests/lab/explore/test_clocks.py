"""Clocks apart in the explorer: they take over a live lease, and the fence prevents a second effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.explore.ours import OURS
from lab.explore.scenarios import APART, BOOK_AND_CANCEL_APART, LAST_SLOT_APART
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import Scenario

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
