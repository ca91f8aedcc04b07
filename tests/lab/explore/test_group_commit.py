"""Group commit in the explorer: its explorations commit two records together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.explore.budgets import GROUP, GROUP_TWICE
from lab.explore.ours import OURS_IN_GROUPS
from oneslot.explorer.explorer import explore
from oneslot.runtime.consumer.group_commit import GroupCommit
from oneslot.runtime.protocol import Answer


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
