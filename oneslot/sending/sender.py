"""Send a stream of messages, each at its time, and archive what the queue accepted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from oneslot.errors import OneslotError
from oneslot.runtime.sqs import sending
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.sending import Answer, Entry, SendsBatches, fits, send_batch, text_attributes
from oneslot.runtime.surroundings import Surroundings
from oneslot.sending.archive import Archive
from oneslot.sending.messages import Message
from oneslot.sending.pacing import Pacing, Timetable

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

WITHIN_SECONDS = 30.0
# Messages that are due within this time of each other may share a batch.
TOGETHER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that the queue accepted, with its SQS id."""

    message: Message
    sqs_message_id: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbers of messages that the queue accepted, and of entries that were sent again."""

    accepted: int = 0
    sent_again: int = 0


class BatchSender:
    """A sender of batches to one queue.

    On a FIFO queue each copy has a deduplication id of its own, the same in every attempt, so that every copy reaches the
    consumer, as one after SQS's five minutes does. A message without a group is a group of its own.
    """

    def __init__(self, client: SQSClient, queue_url: str, surroundings: Surroundings | None = None) -> None:
        self._client = cast("SendsBatches", client)
        self._queue_url = queue_url
        self._surroundings = surroundings or Surroundings()
        self._run = uuid4().hex
        self._numbers = itertools.count()

    @property
    def fifo(self) -> bool:
        """Return whether the queue keeps order."""
        return is_fifo(self._queue_url)

    def send(self, messages: Sequence[Message]) -> tuple[list[Accepted], int]:
        """Send until every message is accepted; return them, and the number of entries that were sent again.

        Raises `OneslotError` for a message that the queue refuses for good, or does not accept within 30 seconds.
        """
        accepted: list[Accepted] = []
        sent_again = 0
        entries = [self._entry(message) for message in messages]
        for answer in sending.send_all(entries, self._call, WITHIN_SECONDS, self._surroundings):
            if answer.refused:
                codes = ", ".join(sorted({code for _, code in answer.refused}))
                raise OneslotError(
                    f"The queue refuses a message for good: {codes}. Correct the message, and send again."
                )
            accepted += [Accepted(entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted]
            sent_again += len(answer.failed)
        if missing := len(messages) - len(accepted):
            raise OneslotError(
                f"The queue did not accept {missing:,} message(s) within {WITHIN_SECONDS:g} seconds. "
                "Send all again: every operation is idempotent."
            )
        return accepted, sent_again

    def _call(self, batch: Sequence[Entry[Message]]) -> Answer[Message]:
        return send_batch(self._client, self._queue_url, batch)

    def _entry(self, message: Message) -> Entry[Message]:
        parameters: dict[str, Any] = {"MessageBody": message.body, **text_attributes(message.attributes)}
        if message.group is not None:
            parameters[GROUP_ATTRIBUTE] = message.group  # on a standard queue: fair queues
        if not self.fifo:
            return Entry(message, parameters)
        copy = f"{self._run}-{next(self._numbers)}"
        group = message.group or copy
        return Entry(message, parameters | {GROUP_ATTRIBUTE: group, "MessageDeduplicationId": copy}, group)


def send_all(
    messages: Iterable[Message],
    sender: BatchSender,
    archive: Archive,
    pacing: Pacing,
    *,
    progress: Callable[[int], None],
    workers: int = 4,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Sent:
    """Send a stream of messages, each at its time, and archive what was accepted, in bounded memory.

    `workers` batches are sent at once; on a FIFO queue one, which keeps the stream's order.
    """
    workers = 1 if sender.fifo else workers
    sent = Sent()
    timetable = Timetable(clock, sleep)
    running: set[Future[tuple[list[Accepted], int]]] = set()

    def collect(done: Iterable[Future[tuple[list[Accepted], int]]]) -> None:
        nonlocal sent
        taken = [future.result() for future in done if future.exception() is None]
        now = time.time_ns() // 1_000_000
        try:
            for entry in (entry for accepted, _ in taken for entry in accepted):
                archive.accepted(entry.message, entry.sqs_message_id, now)
            archive.flush()
        finally:  # a failed archive does not take them out of the queue
            for accepted, sent_again in taken:
                sent = Sent(sent.accepted + len(accepted), sent.sent_again + sent_again)
                progress(len(accepted))

    with ThreadPoolExecutor(workers, "send") as executor:
        try:
            for due, batch in batches(messages, pacing):
                timetable.wait_until(due)
                running.add(executor.submit(sender.send, batch))
                ready, running = wait(
                    running, timeout=None if len(running) >= 2 * workers else 0, return_when=FIRST_COMPLETED
                )
                collect(ready)
                _raise_failure(ready)
        finally:
            # After a failed batch too, because the archive must have what the others got accepted.
            ready, _ = wait(running)
            collect(ready)
        _raise_failure(ready)
    return sent


def batches(messages: Iterable[Message], pacing: Pacing) -> Iterator[tuple[float, list[Message]]]:
    """Yield `(second at which it is due, batch)`: the messages that fit one call and are due at about the same time."""
    batch: list[Message] = []
    size, first_due = 0, 0.0
    for number, message in enumerate(messages):
        due, length = pacing.due(number), _size(message)
        if batch and (not fits(len(batch), size, length) or due - first_due > TOGETHER_SECONDS):
            yield first_due, batch
            batch, size = [], 0
        if not batch:
            first_due = due
        batch.append(message)
        size += length
    if batch:
        yield first_due, batch


def _raise_failure(done: Iterable[Future[Any]]) -> None:
    for future in done:
        future.result()


def _size(message: Message) -> int:
    return Entry(message, {"MessageBody": message.body, **text_attributes(message.attributes)}).size
