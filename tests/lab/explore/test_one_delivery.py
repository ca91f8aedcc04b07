"""E1: one delivery survives one transient fault of a write, and the explorer finds a delivery that gives up."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions

from lab.explore.budgets import GROUPS_SHORT
from lab.explore.faults import READS, SERVER_ERROR, TRANSIENT_REASONS, all_faults, mild_faults
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.scenarios import ALONE
from oneslot.explorer.explorer import explore
from oneslot.explorer.faults import TIMED_OUT
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.world import ApiCall
from oneslot.runtime.consumer.group_commit import GroupCommit

GROUP_ALONE = GROUPS_SHORT[0]


def transaction(items: int) -> ApiCall:
    return ApiCall.of("transact_write_items", {"TransactItems": [{} for _ in range(items)]})


def test_mild_faults_are_transient_faults_of_writes() -> None:
    for operation in READS:
        assert mild_faults(ApiCall.of(operation, {})) == ()
    for request in (transaction(3), ApiCall.of("update_item", {}), ApiCall.of("send_message", {})):
        assert not any(choice.seen == "death" or "AccessDenied" in choice.name for choice in mild_faults(request))
    for request in (transaction(3), ApiCall.of("update_item", {})):
        assert {TIMED_OUT, SERVER_ERROR} <= set(mild_faults(request))


def test_transaction_is_refused_at_each_item() -> None:
    names = {choice.name for choice in mild_faults(transaction(3))}
    assert {f"cancelled: {code} at item {item} of 3" for code in TRANSIENT_REASONS for item in (1, 2, 3)} <= names
    conflicts = [choice.conflict for choice in all_faults(transaction(3)) if choice.conflict is not None]
    assert conflicts == [0, 1, 2]


def _takes_silence_for_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no attempt after one without an answer."""
    for name in ("ConnectionError", "HTTPClientError"):
        monkeypatch.setattr(exceptions, name, ZeroDivisionError)


def _fails_with_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every record of a group that fails."""

    monkeypatch.setattr(GroupCommit, "commit", GroupCommit._commit)


@pytest.mark.parametrize(
    ("scenario", "subject", "weaken"),
    [
        (ALONE[0], OURS, _takes_silence_for_an_end),
        (GROUP_ALONE, OURS_IN_GROUPS, _fails_with_its_group),
    ],
    ids=lambda value: getattr(value, "name", None) or getattr(value, "__name__", ""),
)
def test_explorer_finds_a_delivery_that_gives_up_early(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, subject: ExploredSubject, weaken: Any
) -> None:
    assert explore(scenario, subject).laws_broken == ()
    weaken(monkeypatch)
    assert explore(scenario, subject).laws_broken == ("E1",)
