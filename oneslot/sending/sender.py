"""Sends messages to the queue in batches, reads the answer to every entry, and sends again what was not accepted."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from oneslot.errors import OneslotError
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.producer import is_hopeless
from oneslot.sending.archive import Archive
from oneslot.sending.messages import Message
from oneslot.sending.pacing import Pacing, Timetable

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

T = TypeVar("T")

# SendMessageBatch takes 10 entries and 1 MiB, attributes included.
BATCH = 10
BATCH_BYTES = 1_048_576
ATTEMPTS = 8
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.05, 5.0
# Messages that are due within this time of each other may share a batch.
TOGETHER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Accepted:
    """The queue took this message under this id."""

    message: Message
    sqs_message_id: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    message: Message
    order: Mapping[str, str]  # what a FIFO queue asks for; empty for a standard queue


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of sending: messages that the queue accepted, and entries that had to be sent again."""

    accepted: int = 0
    sent_again: int = 0


class BatchSender:
    """Sends up to ten messages at once.

    On a FIFO queue a call holds one message of each group at most: SQS may take the second of a call and not the first,
    and sending that again would turn their order round. Each copy has a deduplication id of its own, the same in every
    attempt: a copy is to reach the consumer, as one that comes after SQS's five minutes does. A message without a group
    is a group by itself.
    """

    def __init__(
        self,
        client: SQSClient,
        queue_url: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._sleep = sleep
        self._jitter = jitter
        self._fifo = is_fifo(queue_url)
        self._run = uuid4().hex
        self._numbers = itertools.count()

    @property
    def fifo(self) -> bool:
        """Whether the queue keeps order."""
        return self._fifo

    def send(self, messages: Sequence[Message]) -> tuple[list[Accepted], int]:
        """Send until every entry is accepted; returns them, and how many entries were sent again.

        An entry that the answer does not mention counts as failed: it is sent again, at the worst twice, which is what
        the consumer is there for. Raises `OneslotError` for one that the queue will never take, or has not taken after
        eight attempts.
        """
        accepted: list[Accepted] = []
        waiting = [self._waiting(message) for message in messages]
        sent_again = 0
        ceiling = FIRST_BACKOFF_SECONDS
        attempts = 0
        while attempts < ATTEMPTS:
            now, later = first_of_each_group(waiting, lambda entry: entry.order.get(GROUP_ATTRIBUTE))
            answer = self._client.send_message_batch(
                QueueUrl=self._queue_url, Entries=[_entry(at, entry) for at, entry in enumerate(now)]
            )
            hopeless = {failure["Code"] for failure in answer.get("Failed", []) if is_hopeless(failure)}
            if hopeless:
                raise OneslotError(f"The queue refuses a message for good: {', '.join(sorted(hopeless))}.")
            ids = {entry["Id"]: entry["MessageId"] for entry in answer.get("Successful", [])}
            accepted += [Accepted(entry.message, ids[str(at)]) for at, entry in enumerate(now) if str(at) in ids]
            again = [entry for at, entry in enumerate(now) if str(at) not in ids]
            waiting = [*again, *later]
            if not waiting:
                return accepted, sent_again
            if not again:
                continue
            attempts += 1
            sent_again += len(again)
            if attempts < ATTEMPTS:
                self._sleep(self._jitter() * ceiling)
                ceiling = min(LONGEST_BACKOFF_SECONDS, ceiling * 2)
        raise OneslotError(
            f"The queue did not accept {len(waiting)} message(s) in {ATTEMPTS} attempts. "
            "Send again: what was accepted before is answered once all the same."
        )

    def _waiting(self, message: Message) -> _Waiting:
        if not self._fifo:
            return _Waiting(message, {})
        copy = f"{self._run}-{next(self._numbers)}"
        return _Waiting(message, {GROUP_ATTRIBUTE: message.group or copy, "MessageDeduplicationId": copy})


def first_of_each_group(waiting: Sequence[T], group: Callable[[T], str | None]) -> tuple[list[T], list[T]]:
    """Divide into the first of each group, and the rest in its order. What has no group (None) waits for nothing."""
    groups: set[str] = set()
    first, rest = list[T](), list[T]()
    for each in waiting:
        name = group(each)
        (rest if name in groups else first).append(each)
        if name is not None:
            groups.add(name)
    return first, rest


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
    """Send a stream of messages, each at its time, and archive what was accepted. Bounded memory.

    `workers` batches at once; on a FIFO queue one, which keeps the stream's order.
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
        finally:  # the archive may fail, and the queue has them all the same
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
            # Also when a batch failed: what the others got accepted must be in the archive.
            ready, _ = wait(running)
            collect(ready)
        _raise_failure(ready)
    return sent


def batches(messages: Iterable[Message], pacing: Pacing) -> Iterator[tuple[float, list[Message]]]:
    """Yield `(second at which it is due, batch)`: as many messages as fit, and as are due at about the same time."""
    batch: list[Message] = []
    size, first_due = 0, 0.0
    for number, message in enumerate(messages):
        due, length = pacing.due(number), _bytes(message)
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


def _raise_failure(done: Iterable[Future[Any]]) -> None:
    for future in done:
        future.result()


def _entry(at: int, waiting: _Waiting) -> Any:
    message = waiting.message
    entry: dict[str, Any] = {"Id": str(at), "MessageBody": message.body}
    if message.attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()
        }
    if message.group is not None:
        # On a standard queue: fair queues. A practice that sends very much does not delay the others.
        entry[GROUP_ATTRIBUTE] = message.group
    return {**entry, **waiting.order}


def _bytes(message: Message) -> int:
    attributes = sum(len(name) + len("String") + len(value.encode()) for name, value in message.attributes.items())
    return len(message.body.encode()) + attributes
