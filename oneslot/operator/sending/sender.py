"""Send a stream of messages, each at its time, and archive what the queue accepted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from oneslot.errors import MessageRefused, QueueTimeout
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.messages import RequestCopy
from oneslot.runtime.sqs import batches as sqs_batches
from oneslot.runtime.sqs.batches import BATCH, BATCH_BYTES, Entry, SendAnswer, SendsBatches, text_attributes
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.surroundings import Future, Surroundings
from oneslot.wording import numbered

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

WITHIN_SECONDS = 30.0
# A longer stall is not made up for, because the messages would arrive as a flood.
MADE_UP_SECONDS = 1.0
# Messages that are due within this time of each other may share a batch.
TOGETHER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbers of messages that the queue accepted, and of entries that were sent again."""

    accepted: int = 0
    sent_again: int = 0


class Timetable:
    """Waits for due times, in seconds since its construction.

    After a stall of more than a second, as of a queue that does not answer, all due times move by the rest of it.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._started = surroundings.steady()

    def wait_until(self, due: float) -> None:
        """Sleep until the second `due`; return at once if it is past."""
        late = self._surroundings.steady() - self._started - due
        if late < 0:
            self._surroundings.sleep(-late)
        self._started += max(0.0, late - MADE_UP_SECONDS)


class BatchSender:
    """A sender of batches to one queue.

    On a FIFO queue each copy has a deduplication id of its own, the same in every attempt, so that every copy reaches the
    consumer, as one after SQS's five minutes does. A message without a group is a group of its own.
    """

    def __init__(self, client: SQSClient, queue_url: str, surroundings: Surroundings | None = None) -> None:
        self._client = cast("SendsBatches", client)
        self._queue_url = queue_url
        self._surroundings = surroundings or Surroundings()
        self._run = self._surroundings.new_id()
        self._numbers = itertools.count()

    @property
    def fifo(self) -> bool:
        """Return whether the queue keeps order."""
        return is_fifo(self._queue_url)

    def send(self, messages: Sequence[RequestCopy]) -> Iterator[SendAnswer[RequestCopy]]:
        """Send until every message is accepted; yield the answer to each call.

        Raises:
            OneslotError: the queue refuses a message for good, or does not accept it within 30 seconds.
            ClientError, BotoCoreError, OSError: the queue cannot be used, or the last call within 30 seconds failed.
        """
        missing = len(messages)
        error: Exception | None = None
        entries = [self._entry(message) for message in messages]
        for answer in sqs_batches.send_all(self._client, self._queue_url, entries, WITHIN_SECONDS, self._surroundings):
            yield answer
            if answer.refused:
                codes = ", ".join(sorted({code for _, code in answer.refused}))
                raise MessageRefused(
                    f"The queue refuses a message for good: {codes}. Correct the message, and send again."
                )
            missing -= len(answer.accepted)
            error = answer.error
        if missing and error is not None:
            raise error
        if missing:
            raise QueueTimeout(
                f"The queue did not accept {numbered(missing, 'message')} within {WITHIN_SECONDS:g} seconds. "
                "Send all again: every operation is idempotent."
            )

    def _entry(self, message: RequestCopy) -> Entry[RequestCopy]:
        parameters: dict[str, Any] = {"MessageBody": message.body, **text_attributes(message.attributes)}
        if message.group is not None:
            parameters[GROUP_ATTRIBUTE] = message.group  # on a standard queue: fair queues
        if not self.fifo:
            return Entry(message, parameters)
        copy = f"{self._run}-{next(self._numbers)}"
        group = message.group or copy
        return Entry(message, parameters | {GROUP_ATTRIBUTE: group, "MessageDeduplicationId": copy}, group)


def send_all(
    messages: Iterable[RequestCopy],
    sender: BatchSender,
    archive: Archive,
    *,
    progress: Callable[[int], None],
    rate: float | None = None,
    workers: int = 4,
    surroundings: Surroundings | None = None,
) -> Sent:
    """Send a stream of messages, `rate` a second or as fast as possible, and archive what was accepted, in bounded memory.

    `workers` batches are sent at once. On a FIFO queue each batch waits for the one before, and a failed one ends the sending,
    which keeps the stream's order. Whatever ends it, the archive has each message of which the queue's answer is known, because
    the thread that gets an answer archives it.
    """
    surroundings = surroundings or Surroundings()
    threads = surroundings.threads
    sent, lock, ended = Sent(), threads.lock(), threads.event()

    def send(batch: Sequence[RequestCopy]) -> None:
        nonlocal sent
        for answer in sender.send(batch):
            try:
                archive.accepted((entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted)
            finally:  # a failed archive does not take them out of the queue
                with lock:
                    sent = Sent(sent.accepted + len(answer.accepted), sent.sent_again + len(answer.failed))
                    progress(len(answer.accepted))
            if ended.is_set():
                return

    running: list[Future[None]] = []
    timetable = Timetable(surroundings)
    with threads.executor(workers, "send") as executor:
        try:
            for due, batch in batches(messages, rate):
                timetable.wait_until(due)
                running.append(executor.submit(send, batch))
                if sender.fifo or len(running) >= 2 * workers:
                    threads.wait_for_first(running)
                running = _unfinished(running)
        except BaseException:
            ended.set()  # no retries, but the answers that are under way
            raise
    _unfinished(running)
    return sent


def batches(messages: Iterable[RequestCopy], rate: float | None = None) -> Iterator[tuple[float, list[RequestCopy]]]:
    """Yield `(second at which it is due, batch)`: the messages that fit one call and are due at about the same time."""
    batch: list[RequestCopy] = []
    size, first_due = 0, 0.0
    for number, message in enumerate(messages):
        due = number / rate if rate else 0.0
        length = Entry(message, {"MessageBody": message.body, **text_attributes(message.attributes)}).size
        full = len(batch) == BATCH or size + length > BATCH_BYTES
        if batch and (full or due - first_due > TOGETHER_SECONDS):
            yield first_due, batch
            batch, size = [], 0
        if not batch:
            first_due = due
        batch.append(message)
        size += length
    if batch:
        yield first_due, batch


def _unfinished(running: Iterable[Future[None]]) -> list[Future[None]]:
    """Return those that are not done. Raises the first error of the others."""
    unfinished = []
    for future in running:
        if future.done():
            future.result()
        else:
            unfinished.append(future)
    return unfinished
