"""Slots, bookings, SQS events and tables that all benchmarks use, and the environment of our consumer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.allocation import free_key, utc_text
from lab.figures import tables

CHANNEL, SERVICE, NHS_NUMBER = "Telephone", "General Consultation Routine", "9990000018"
# In January of next year, so that every slot is in the future whenever this runs.
FIRST_SLOT = datetime(datetime.now(UTC).year + 1, 1, 11, 8, 0, tzinfo=UTC)
SLOTS_A_WEEK = 500
BATCH = 10
"""Records in an event."""
CONCURRENCY = 10
"""Records of a batch that run at once: the stack's setting."""

ENVIRONMENT: Mapping[str, str] = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_TABLE_SLOTS": "slots",
    "ONESLOT_TABLE_APPOINTMENTS": "appointments",
    "ONESLOT_QUEUE_URL": "http://127.0.0.1/requests",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1/requests-dead-letters",
    "ONESLOT_LEDGER_RETENTION_SECONDS": str(30 * 86_400),
    "BATCH_CONCURRENCY": str(CONCURRENCY),
    "CANDIDATE_SLOTS": "16",
}

Handler = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]
"""A Lambda function: event, context → the partial batch response."""


@dataclass(frozen=True)
class LambdaContext:
    """The part of Lambda's context that the handlers read, with 30 seconds left."""

    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds left."""
        return 30_000


def week(practice: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield free slots of ten minutes, two at a time, from 8:00 to 18:00 on each day."""
    for position in range(number):
        day, place = divmod(position, 120)
        start = FIRST_SLOT + timedelta(days=day, minutes=10 * (place // 2))
        slot_id = f"{start:%Y%m%dT%H%MZ}-{place % 2 + 1:02}"
        yield free_slot(practice, slot_id, start, CHANNEL)


def free_slot(practice: str, slot_id: str, start: datetime, channel: str) -> dict[str, Any]:
    """Return a free slot of ten minutes, as a row of the slots table."""
    slot = {
        "practice": practice,
        "slot_id": slot_id,
        "start": utc_text(start),
        "end": utc_text(start + timedelta(minutes=10)),
        "status": "free",
        "delivery_channel": channel,
        "service_type": SERVICE,
    }
    return {**slot, "free_key": free_key(slot)}


def booking(message_id: str, practice: str) -> dict[str, Any]:
    """Return a request for any of the practice's slots."""
    return {
        "message_id": message_id,
        "type": "book",
        "practice": practice,
        "nhs_number": NHS_NUMBER,
        "not_before": utc_text(FIRST_SLOT),
        "not_after": utc_text(FIRST_SLOT + timedelta(days=28)),
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
    }


def event(bodies: Sequence[Mapping[str, Any]], receive_count: int = 1) -> dict[str, Any]:
    """Return an SQS event with a record for each body."""
    now = str(time.time_ns() // 1_000_000)
    return {
        "Records": [
            {
                "messageId": f"{body['message_id']}-{position}",
                "receiptHandle": f"receipt-{body['message_id']}-{position}",
                "body": json.dumps(body),
                "attributes": {"ApproximateReceiveCount": str(receive_count), "SentTimestamp": now},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-2:123456789012:requests",
                "awsRegion": "eu-west-2",
            }
            for position, body in enumerate(bodies)
        ]
    }


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table. A fraction has two decimals below 10, one below 100, else none."""
    return tables.table(header, [[_text(cell) for cell in row] for row in rows])


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.{2 if abs(cell) < 10 else 1 if abs(cell) < 100 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
