"""A cancelled transaction that names only one of its reasons, because DynamoDB does not promise all."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lab.explore.budgets import GROUP, GROUP_OTHER_CONTENT, GROUP_TWICE
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.practice import TABLES, CountingServices
from lab.explore.scenarios import FORGOTTEN, LAST_SLOT, ONE_REQUEST
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.world import ApiCall, Services, World
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Claim, Committed, Exists
from oneslot.runtime.stores.dynamodb import DynamoDBLedger

FIRST, LAST = 0, -1


def naming_one(which: int) -> Services:
    """Return services that report "None" for every failed item but the first or the last."""

    def services(world: World, request: ApiCall, now: int, conflict: int | None = None) -> tuple[World, str]:
        after, observation = CountingServices(TABLES)(world, request, now, conflict)
        seen = json.loads(observation)
        reasons = seen.get("error", {}).get("CancellationReasons", [])
        at_fault = [position for position, reason in enumerate(reasons) if reason["Code"] != "None"]
        for position in at_fault:
            if position != at_fault[which]:
                reasons[position] = {"Code": "None"}
        return after, json.dumps(seen, sort_keys=True)

    return services


@pytest.mark.slow
@pytest.mark.parametrize("which", [FIRST, LAST], ids=["first", "last"])
@pytest.mark.parametrize(
    ("scenario", "subject"),
    [
        (replace(ONE_REQUEST, expiries=1), OURS),
        (replace(LAST_SLOT, deliveries=((0,), (1,)), expiries=0), OURS),
        (replace(FORGOTTEN, expiries=0), OURS),
        (replace(GROUP, expiries=0), OURS_IN_GROUPS),
        (replace(GROUP_TWICE, faults=0, expiries=0), OURS_IN_GROUPS),
        (replace(GROUP_OTHER_CONTENT, faults=0, expiries=0), OURS_IN_GROUPS),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)
def test_missing_reasons_break_no_law(scenario: Scenario, subject: ExploredSubject, which: int) -> None:
    exploration = Explorer(replace(scenario, services=naming_one(which)), subject).run()
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()


def test_explorer_finds_an_existing_item_taken_for_the_end() -> None:
    """With all reasons one request never gets there; with the last reason alone it does."""
    original = DynamoDBLedger.commit

    def commit(self: DynamoDBLedger, claim: Claim, effects: Effects) -> Any:
        outcome = original(self, claim, effects)
        if isinstance(outcome, Exists) and effects.once is not None:
            return Committed(effects.once.answer(outcome.item))
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamoDBLedger, "commit", commit)
        quiet = replace(ONE_REQUEST, faults=0)  # a conflict at the ledger's item hides its reason as well
        assert Explorer(quiet, OURS).run().laws_broken == ()
        assert "I7" in Explorer(replace(quiet, services=naming_one(LAST)), OURS).run().laws_broken
