"""The practice of all scenarios: its tables and queues, its slots, and the requests to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.allocation import free_key, utc_text
from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.explorer.world import SqsMessage, World

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
