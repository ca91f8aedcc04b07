"""Group commit in the explorer: a weakened group commit breaks a law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lab.explore.group_scenarios import GROUP, GROUP_OTHER_CONTENT, GROUP_TWICE
from lab.explore.ours import OURS_IN_GROUPS
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import Scenario
from oneslot.runtime.consumer import group_commit
from oneslot.runtime.consumer.group_commit import GroupCommit
from oneslot.runtime.effects import Put
from oneslot.runtime.protocol import Answer, Message


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
            explore(replace(scenario, faults=0, expiries=0), OURS_IN_GROUPS)
    assert {1, 2} <= set(reached)


def _believes_every_row(row: Mapping[str, Any], message: Message, ours: Put | None = None) -> Answer:
    return Answer({"outcome": "booked"}, True, row["consumption_count"], row["claimed_by"])


def _believes_other_content(row: Mapping[str, Any], message: Message, ours: Put | None = None) -> Answer | None:
    return _finished({**row, "payload_hash": message.payload_hash}, message, ours)


_finished = group_commit.finished


@pytest.mark.parametrize(
    ("scenario", "change", "law"),
    [
        (GROUP, ("finished", _believes_every_row), "I"),
        (GROUP_OTHER_CONTENT, ("finished", _believes_other_content), "I2"),
    ],
    ids=["a claimed row counts as complete", "other content counts as the same"],
)
def test_explorer_finds_a_wrong_look_at_the_ledger(scenario: Scenario, change: tuple[str, Any], law: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_commit, *change)
        broken = explore(replace(scenario, expiries=0), OURS_IN_GROUPS, stop_at_first=True).laws_broken
    assert any(name.startswith(law) for name in broken)


def test_explorer_finds_a_refused_group_taken_for_committed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        original = GroupCommit._refusals
        patch.setattr(GroupCommit, "_refusals", lambda self, members: original(self, members) and {})
        assert explore(replace(GROUP_TWICE, faults=0), OURS_IN_GROUPS, stop_at_first=True).laws_broken
