"""Each law can break: a recorded mutant of the core breaks it, or a change here."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from appointments import allocation
from appointments.messages import BookRequest
from demo.declared import CONSUMER
from lab.explore.ours import OURS
from lab.explore.scenarios import ALONE, ONE_REQUEST, SAME_SLOT
from lab.mutation.mutants import EXPLORER, expected
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import Scenario
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Claim
from oneslot.runtime.stores.checks import transact_items
from oneslot.runtime.stores.dynamodb import DynamoDBLedger

Change = Callable[[pytest.MonkeyPatch], None]


def _slots_without_a_condition(patch: pytest.MonkeyPatch) -> None:
    def items(writes: Iterable[Any], tables: Mapping[str, str]) -> list[dict[str, Any]]:
        made = transact_items(writes, tables)
        for update in (item["Update"] for item in made if "Update" in item):
            if update["TableName"] == tables["slots"]:
                condition = update["ConditionExpression"]
                update["ConditionExpression"] = f"{condition} OR NOT ({condition})"
        return made

    patch.setattr("oneslot.runtime.stores.dynamodb.transact_items", items)


def _effects_before_their_mark(patch: pytest.MonkeyPatch) -> None:
    original = DynamoDBLedger.commit

    def commit(self: Any, claim: Claim, effects: Effects) -> Any:
        items = transact_items(effects.all_writes, self.tables)
        with contextlib.suppress(ClientError):
            self.client.transact_write_items(TransactItems=items, ClientRequestToken=self.surroundings.new_id())
        return original(self, claim, Effects(effects.result))

    patch.setattr(DynamoDBLedger, "commit", commit)


def _claims_not_counted(patch: pytest.MonkeyPatch) -> None:
    original = DynamoDBLedger.claim

    def claim(self: Any, message_id: str, payload_hash: str, lease_until: int) -> Any:
        client = self.client

        class Uncounted:
            def update_item(self, **request: Any) -> Any:
                update = request["UpdateExpression"].replace(" ADD consumption_count :one", "")
                return client.update_item(
                    **{**request, "UpdateExpression": update.replace("SET ", "SET consumption_count = :one, ", 1)}
                )

        self.client = Uncounted()
        try:
            return original(self, message_id, payload_hash, lease_until)
        finally:
            self.client = client

    patch.setattr(DynamoDBLedger, "claim", claim)


def _patients_in_a_log(patch: pytest.MonkeyPatch) -> None:
    original = allocation.book

    def book(request: BookRequest, *others: Any) -> Effects:
        logging.getLogger(__name__).warning("a booking for %s", request.nhs_number)
        return original(request, *others)

    patch.setattr(allocation, "book", book)


HERE: dict[str, tuple[Scenario, Change]] = {
    "I3": (SAME_SLOT, _slots_without_a_condition),
    "I5r": (ONE_REQUEST, _effects_before_their_mark),
    "I10": (ONE_REQUEST, _claims_not_counted),
    "L1": (ALONE[0], _patients_in_a_log),
}
"""The laws that no mutant breaks first, because a record names only the first law."""


@pytest.mark.slow
@pytest.mark.parametrize("law", HERE)
def test_law_is_broken_by_a_mutated_core(law: str) -> None:
    scenario, change = HERE[law]
    assert law not in explore(scenario, OURS).laws_broken
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        assert law in explore(scenario, OURS).laws_broken


def test_every_law_has_a_mutant_that_breaks_it() -> None:
    """A new law needs a mutant that breaks it, or an entry above."""
    score = expected()
    said = [re.match(r"[A-Z]\d+r?", score.mutants[name][1]) for name in score.by(EXPLORER)]
    # The laws of the simulation (M, Q) have a broken system each in tests/lab/simulation.
    laws = {invariant.name for invariant in CONSUMER.laws if invariant.name[0] not in "MQ"}
    assert {law[0] for law in said if law} | set(HERE) == laws
