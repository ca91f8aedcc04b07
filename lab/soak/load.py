"""Load with a steady backlog: requests as producers send them, repeated, cancelled, overtaken and malformed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from demo.generator import Mix, RequestGenerator, utc_now
from demo.plan import Plan
from demo.practices import synthetic_demand, synthetic_practices
from demo.slots import next_monday, share_out, working_days
from oneslot.errors import OneslotError
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.sender import BatchSender
from oneslot.runtime.sqs.queue_depth import queue_depth

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

DAYS = 10
SLOTS_PER_PRACTICE = 150
# Slots for most of the expected messages, so that many are booked and the rest goes on the waiting list.
SLOTS_PER_MESSAGE = 0.6
# More than the hosts hold at once, so that no fault finds them idle, and few enough to drain within two leases.
BACKLOG = 600
_PAUSE_WHEN_FULL = 0.2
_LONGEST_PAUSE = 300.0
_BATCH = 10
_BATCHES_BETWEEN_LOOKS = 10


@dataclass(frozen=True)
class Size:
    """The size of a load: at least this many seconds and this many messages, copies included."""

    seconds: float
    messages: int


def schedule_for(expected_messages: int, seed: int, today: date) -> Plan:
    """Return practices with slots for the expected messages."""
    slots = max(200, round(expected_messages * SLOTS_PER_MESSAGE))
    practices = synthetic_practices(max(2, slots // SLOTS_PER_PRACTICE))
    return Plan(share_out(slots, list(synthetic_demand(practices, seed))), working_days(next_monday(today), DAYS), seed)


class Load:
    """Sends until the size is reached. `sent` counts the messages."""

    def __init__(self, client: SQSClient, queue_url: str, schedule: Plan, size: Size, archive: Path) -> None:
        self._client, self._queue_url, self._size, self._archive = client, queue_url, size, archive
        # The time ends the stream, not this number: no machine can send as many.
        most = max(10 * size.messages, int(size.seconds * 5_000), 1_000)
        self._messages = RequestGenerator(schedule, Mix(most), schedule.seed, utc_now()).messages()
        self.sent = 0

    def run(self) -> None:
        """Send. Raises `OneslotError` if no host consumes."""
        sender, archive = BatchSender(self._client, self._queue_url), Archive(self._archive)
        ends, batches = time.monotonic() + self._size.seconds, 0
        while time.monotonic() < ends or self.sent < self._size.messages:
            if batches % _BATCHES_BETWEEN_LOOKS == 0:
                self._wait_for_room()
            batches += 1
            for answer in sender.send(list(islice(self._messages, _BATCH))):
                archive.accepted((entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted)
                self.sent += len(answer.accepted)

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + _LONGEST_PAUSE
        while queue_depth(self._client, self._queue_url).total >= BACKLOG:
            if time.monotonic() >= deadline:
                raise OneslotError(
                    f"The queue has held {BACKLOG} messages or more for {_LONGEST_PAUSE:.0f} s, so no host consumes it. "
                    "See the hosts' logs in the run's folder."
                )
            time.sleep(_PAUSE_WHEN_FULL)
