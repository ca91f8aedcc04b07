"""Load with a steady backlog: requests as producers send them, repeated, cancelled, overtaken and malformed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
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
from oneslot.operator.sending.messages import RequestCopy
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
    """Sends in a thread of its own until the size is reached and `may_end` is set."""

    def __init__(
        self, client: SQSClient, queue_url: str, *, schedule: Plan, size: Size, seed: int, archive: Path
    ) -> None:
        self._client, self._queue_url, self._size, self._archive = client, queue_url, size, archive
        self._sender = BatchSender(client, queue_url)
        # The time ends the stream, not this number: no machine can send as many.
        most = max(10 * size.messages, int(size.seconds * 5_000), 1_000)
        self._messages = RequestGenerator(schedule, Mix(most), seed, utc_now()).messages()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._error: BaseException | None = None
        self.sent = 0
        self.may_end = threading.Event()

    def start(self) -> None:
        """Start."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether everything is sent. Raises the error of the sending thread."""
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._send(Archive(self._archive), self._batches(), time.monotonic)
        except BaseException as error:
            self._error = error

    def _send(self, archive: Archive, batches: Iterator[list[RequestCopy]], clock: Callable[[], float]) -> None:
        ends = clock() + self._size.seconds
        for number, batch in enumerate(batches):
            if clock() >= ends and self.sent >= self._size.messages and self.may_end.is_set():
                return
            if number % _BATCHES_BETWEEN_LOOKS == 0:
                self._wait_for_room(clock)
            for answer in self._sender.send(batch):
                archive.accepted((entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted)
                self.sent += len(answer.accepted)

    def _wait_for_room(self, clock: Callable[[], float]) -> None:
        deadline = clock() + _LONGEST_PAUSE
        while queue_depth(self._client, self._queue_url).total >= BACKLOG:
            if clock() >= deadline:
                raise OneslotError(
                    f"The queue has held {BACKLOG} messages or more for {_LONGEST_PAUSE:.0f} s, so no host consumes it. "
                    "Run again with --folder, and read the hosts' logs there."
                )
            time.sleep(_PAUSE_WHEN_FULL)

    def _batches(self) -> Iterator[list[RequestCopy]]:
        while batch := list(islice(self._messages, _BATCH)):
            yield batch
