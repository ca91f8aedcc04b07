"""The practice of all scenarios: its tables and queues, its slots, the requests to it, and its services.

The services count the claims that they grant, for the laws to compare.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.allocation import free_key, utc_text
from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.explorer.handlers.aws import AccountServices
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall, SqsMessage, World, from_text, to_text

LEDGER, SLOTS, APPOINTMENTS = "ledger", "slots", "appointments"
QUEUE, DEAD_LETTERS = "https://sqs.example/requests", "https://sqs.example/requests-dead-letters"
TABLES: Mapping[str, TableSchema] = {
    LEDGER: TableSchema("message_id"),
    SLOTS: TableSchema("practice", "slot_id", {"free_slots": Index("practice", "free_key", ())}),
    APPOINTMENTS: TableSchema("appointment_id"),
}
"""The three tables as the stack defines them; a test compares them with the template."""

PRACTICE = "A81001"
CHANNEL = "Telephone"
SERVICE = "General Consultation Routine"
PATIENTS = ("9990000018", "9990000026", "9990000034")
"""NHS numbers that are never issued, because the test range starts with 999."""

FIRST_SLOT = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


def dead_letters(world: World) -> list[Mapping[str, Any]]:
    """Return the messages in the dead-letter queue."""
    return world.queues.get(DEAD_LETTERS, [])


def free_slots(number: int) -> list[dict[str, Any]]:
    """Return this many free slots at the practice, one every ten minutes."""
    return [free_slot(PRACTICE, FIRST_SLOT + timedelta(minutes=10 * position)) for position in range(number)]


def free_slot(practice: str, start: datetime, place: str = "01", channel: str = CHANNEL) -> dict[str, Any]:
    """Return a free slot of ten minutes, as a row of the slots table. `place` tells slots of one time apart."""
    slot = {
        "practice": practice,
        "slot_id": f"{start:%Y%m%dT%H%MZ}-{place}",
        "start": utc_text(start),
        "end": utc_text(start + timedelta(minutes=10)),
        "status": "free",
        "delivery_channel": channel,
        "service_type": SERVICE,
    }
    return {**slot, "free_key": free_key(slot)}


def booking(message_id: str, patient: int = 0, **changes: Any) -> SqsMessage:
    """Return a booking for one of the `PATIENTS`. `changes` replace fields of its body."""
    body: Mapping[str, Any] = {
        "message_id": message_id,
        "type": "book",
        "practice": PRACTICE,
        "nhs_number": PATIENTS[patient],
        "not_before": "2026-11-23T08:00:00Z",
        "not_after": "2026-11-24T08:00:00Z",
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
        **changes,
    }
    return SqsMessage(message_id, json.dumps(body))


def cancellation(message_id: str, appointment_id: str) -> SqsMessage:
    """Return a cancellation of the appointment with this id, which is its booking's message id."""
    body = {"message_id": message_id, "type": "cancel", "appointment_id": appointment_id}
    return SqsMessage(message_id, json.dumps(body))


CLAIMS = "claims"
"""The kind of line that counts granted claims by message id. The code under test never sees it."""


def claims_of(world: World) -> Counter[str]:
    """Return the claims granted, by message id, as the services counted them."""
    return Counter({message_id: count for _, message_id, count in world.lines(CLAIMS)})


@dataclass(frozen=True)
class CountingServices:
    """The services of an account with these tables; see `oneslot.explorer.world.Services`."""

    tables: Mapping[str, TableSchema]

    def __call__(self, world: World, request: ApiCall, now: int, conflict: int | None = None) -> tuple[World, str]:
        """Perform a call. What the stand-ins do not model is raised as it is, so that it counts as a breach."""
        try:
            after, observation = AccountServices(self.tables)(world, request, now, conflict)
        except NotExplorable as error:
            raise error.__cause__ or error from None
        if "error" in from_text(observation):
            return world, observation
        claims, (operation, parameters) = claims_of(world), request.parts
        if parameters.get("ClientRequestToken") not in {token for _, token, _ in world.lines("token")}:
            claims.update(_claimed(operation, parameters))
        counted = [to_text([CLAIMS, "", message_id, count]) for message_id, count in claims.items()]
        return World("\n".join(sorted([*filter(None, after.text.split("\n")), *counted]))), observation


def _claimed(operation: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the messages that a successful call claims: each write that sets the ledger's fence is a granted claim.

    An update sets the fence, or a transaction puts a row that has one: the commit of a first delivery is its own claim.
    """
    claimed = []
    if operation == "update_item" and "claimed_by = " in parameters["UpdateExpression"]:
        claimed = [parameters["Key"]]
    elif operation == "transact_write_items":
        puts = (action["Put"]["Item"] for action in parameters["TransactItems"] if "Put" in action)
        claimed = [item for item in puts if "claimed_by" in item]
    return [key.get("message_id", {}).get("S", "") for key in claimed]
