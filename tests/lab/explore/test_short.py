"""The short explorations of our handler: no schedule breaks a law, and each scenario meets what it is for."""

import json
from dataclasses import replace
from typing import Any

import pytest

from appointments.allocation import choose
from appointments.messages import BookRequest, parse_message
from lab.explore.budgets import GROUP, GROUP_BY_ITSELF, GROUP_TWICE, GROUPS_SHORT, SHORT
from lab.explore.laws import OurLaws
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.practice import TABLES, free_slots
from lab.explore.scenarios import (
    ALONE,
    APART,
    BATCH_SIDE_BY_SIDE,
    BOOK_AND_CANCEL_APART,
    BOOKING,
    DOMAIN_EXCEPTION,
    LAST_SLOT_APART,
    RELEASED,
    SAME_WISH,
)
from oneslot.dynamodb_in_memory.contents import Contents
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.world import World
from oneslot.runtime.consumer.group_commit import GroupCommit
from oneslot.runtime.protocol import Answer

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
    exploration = Explorer(scenario, subject).run()
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()


SMALL = (
    replace(APART, faults=1, expiries=0),
    replace(LAST_SLOT_APART, faults=0, expiries=0),
    replace(BOOK_AND_CANCEL_APART, faults=0, expiries=0),
)


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.name)
def test_clocks_apart_break_only_e2(scenario: Scenario) -> None:
    assert Explorer(replace(scenario, exempt=()), OURS).run().laws_broken == ("E2",)
    exploration = Explorer(scenario, OURS).run()
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()


def test_group_explorations_commit_two_records_together() -> None:
    reached: list[int] = []
    original = GroupCommit.commit_first
    with pytest.MonkeyPatch.context() as patch:

        def watched(self: GroupCommit[Any], group: Any) -> dict[str, Answer]:
            answers = original(self, group)
            reached.append(len(answers))
            return answers

        patch.setattr(GroupCommit, "commit_first", watched)
        for scenario in (GROUP, GROUP_TWICE):
            Explorer(replace(scenario, faults=0, expiries=0), OURS_IN_GROUPS).run()
    assert {1, 2} <= set(reached)


def test_final_state_must_be_the_scenarios() -> None:
    world = World.of(Contents({name: {} for name in TABLES}), {}, {})
    assert list(OurLaws().at_last(world, ())) == []
    assert len(list(OurLaws().at_last(world, ("booked",)))) == 1


def test_requests_with_the_same_wish_choose_one_slot() -> None:
    keys = [slot["free_key"] for slot in free_slots(2)]
    requests = [parse_message(message_id, "hash", json.loads(BOOKING.body)) for message_id in SAME_WISH]
    assert len({choose(request, keys) for request in requests if isinstance(request, BookRequest)}) == 1
