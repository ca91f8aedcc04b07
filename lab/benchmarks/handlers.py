"""The handlers that are compared, and their slots and bookings: ours as the stack composes it, and Powertools'.

Both do the same business: find a free slot, take it, book it. `lab/peers/powertools.py` makes Powertools' handler.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.allocation import utc_text
from booking.consumer import appointments_consumer
from lab import figures
from lab.explore.ours import ENVIRONMENT as EXPLORED
from lab.explore.practice import booking as explored_booking
from lab.explore.practice import free_slot
from lab.peers.ledgers import take_slot
from lab.peers.powertools import Handler
from oneslot.runtime.powertools import attempt
from oneslot.runtime.values import to_attributes


def ours(dynamodb: Any, sqs: Any, *, group_commit: bool) -> Handler:
    """Return our consumer as the function composes it, without log and metrics, which Powertools' does not write either."""
    return appointments_consumer(
        {**ENVIRONMENT, "GROUP_COMMIT": str(group_commit).lower()},
        lambda delivery: None,
        dynamodb=dynamodb,
        sqs=sqs,
        executor=ThreadPoolExecutor(CONCURRENCY),
        attempt=attempt,
    )


def book(client: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    """Take the first free slot, searching again if it was taken meanwhile, and write the appointment."""
    kind = f"{message['delivery_channel']}#{message['service_type']}"
    first, last = (f"{kind}#{message[name]}#" for name in ("not_before", "not_after"))
    answer = take_slot(client, message["message_id"], message["practice"], first, last)
    appointment = {
        "appointment_id": message["message_id"],
        "practice": message["practice"],
        "nhs_number": message["nhs_number"],
        "status": answer["outcome"],
    }
    slot = {"slot_id": answer["slot_id"]} if "slot_id" in answer else {}
    client.put_item(TableName="appointments", Item=to_attributes({**appointment, **slot}))
    return answer


# In January of next year, so that every slot is in the future whenever this runs.
FIRST_SLOT = datetime(datetime.now(UTC).year + 1, 1, 11, 8, 0, tzinfo=UTC)
SLOTS_A_WEEK = 500
BATCH = 10
"""Records in an event."""
CONCURRENCY = 10
"""Records of a batch that run at once: the stack's setting."""

ENVIRONMENT: Mapping[str, str] = {
    **EXPLORED,
    "BATCH_CONCURRENCY": str(CONCURRENCY),
    "CANDIDATE_SLOTS": "16",
}


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
    return figures.table(header, [[_text(cell) for cell in row] for row in rows])


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.{2 if abs(cell) < 10 else 1 if abs(cell) < 100 else 0}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
