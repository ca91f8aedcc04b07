"""Slots, bookings and tables that all benchmarks use, and the environment of our consumer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.allocation import utc_text
from lab.explore.practice import booking as explored_booking
from lab.explore.practice import free_slot
from lab.figures import tables

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


def week(practice: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield free slots of ten minutes, two at a time, from 8:00 to 18:00 on each day."""
    for position in range(number):
        day, place = divmod(position, 120)
        start = FIRST_SLOT + timedelta(days=day, minutes=10 * (place // 2))
        yield free_slot(practice, start, f"{place % 2 + 1:02}")


def booking(message_id: str, practice: str, first: datetime = FIRST_SLOT, days: int = 28, **changes: Any) -> Any:
    """Return the body of a request for any of the practice's slots in these days. `changes` replace its fields."""
    window: dict[str, Any] = {"not_before": utc_text(first), "not_after": utc_text(first + timedelta(days=days))}
    return json.loads(explored_booking(message_id, practice=practice, **window, **changes).body)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table. A fraction has two decimals below 10, one below 100, else none."""
    return tables.table(header, [[_text(cell) for cell in row] for row in rows])


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.{2 if abs(cell) < 10 else 1 if abs(cell) < 100 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
