"""The short explorations of our handler: no schedule breaks a law."""

from __future__ import annotations

import pytest

from lab.explore.budgets import GROUP_BY_ITSELF, GROUPS_SHORT, SHORT
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.scenarios import ALONE, BATCH_SIDE_BY_SIDE, DOMAIN_EXCEPTION, RELEASED
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import ExploredSubject, Scenario

FAST = {scenario.name for scenario in (*ALONE, BATCH_SIDE_BY_SIDE, DOMAIN_EXCEPTION, RELEASED, GROUP_BY_ITSELF)}
"""The explorations of the fast tier, less than a second each."""

EXPLORATIONS = [
    *((subject, scenario) for subject, budget in ((OURS, SHORT), (OURS_IN_GROUPS, GROUPS_SHORT)) for scenario in budget)
]


@pytest.mark.parametrize(
    ("subject", "scenario"),
    [
        pytest.param(
            subject,
            scenario,
            id=f"{subject.name}: {scenario.name} {scenario.size}",
            marks=() if scenario.name in FAST else pytest.mark.slow,
        )
        for subject, scenario in EXPLORATIONS
    ],
)
def test_no_schedule_breaks_a_law(subject: ExploredSubject, scenario: Scenario) -> None:
    exploration = explore(scenario, subject)
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()
