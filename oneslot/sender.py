"""Sends messages to the queue in batches, reads the answer to every entry, and sends again what was not accepted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oneslot.archive import Archive
from oneslot.errors import OneslotError
from oneslot.messages import Message
from oneslot.pacing import Pacing

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

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
class Sent:
    """What came of sending: messages that the queue accepted, and entries that had to be sent again."""

    accepted: int = 0
    sent_again: int = 0


class BatchSender:
    """Sends up to ten messages at once."""

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

    def send(self, messages: Sequence[Message]) -> tuple[list[Accepted], int]:
        """Send until every entry is accepted; returns them, and how many entries were sent again.

        An entry that the answer does not mention counts as failed: it is sent again, at the worst twice, which is what
        the consumer is there for. Raises `OneslotError` for one that the queue will never take, or has not taken after
        eight attempts.
        """
        accepted: list[Accepted] = []
        waiting = list(messages)
        sent_again = 0
        ceiling = FIRST_BACKOFF_SECONDS
        for _ in range(ATTEMPTS):
            answer = self._client.send_message_batch(
                QueueUrl=self._queue_url, Entries=[_entry(at, message) for at, message in enumerate(waiting)]
            )
            hopeless = {failure["Code"] for failure in answer.get("Failed", []) if failure["SenderFault"]}
            if hopeless:
                raise OneslotError(f"The queue refuses a message for good: {', '.join(sorted(hopeless))}.")
            ids = {entry["Id"]: entry["MessageId"] for entry in answer.get("Successful", [])}
            accepted += [Accepted(message, ids[str(at)]) for at, message in enumerate(waiting) if str(at) in ids]
            waiting = [message for at, message in enumerate(waiting) if str(at) not in ids]
            if not waiting:
                return accepted, sent_again
            sent_again += len(waiting)
            self._sleep(self._jitter() * ceiling)
            ceiling = min(LONGEST_BACKOFF_SECONDS, ceiling * 2)
        raise OneslotError(
            f"The queue did not accept {len(waiting)} message(s) in {ATTEMPTS} attempts. "
            "Send again: what was accepted before is answered once all the same."
        )


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
    """Send a stream of messages, each at its time, and archive what was accepted. Bounded memory."""
    sent = Sent()
    started = clock()
    running: set[Future[tuple[list[Accepted], int]]] = set()

    def collect(done: Iterable[Future[tuple[list[Accepted], int]]]) -> None:
        nonlocal sent
        for future in done:
            if future.exception() is not None:
                continue
            accepted, sent_again = future.result()
            now = time.time_ns() // 1_000_000
            for entry in accepted:
                archive.accepted(entry.message, entry.sqs_message_id, now)
            archive.flush()
            sent = Sent(sent.accepted + len(accepted), sent.sent_again + sent_again)
            progress(len(accepted))

    with ThreadPoolExecutor(workers, "send") as executor:
        try:
            for due, batch in batches(messages, pacing):
                if (early := started + due - clock()) > 0:
                    sleep(early)
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


def _entry(at: int, message: Message) -> Any:
    entry: dict[str, Any] = {"Id": str(at), "MessageBody": message.body}
    if message.attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()
        }
    if message.group is not None:
        # On a standard queue: fair queues. A practice that sends very much does not delay the others.
        entry["MessageGroupId"] = message.group
    return entry


def _bytes(message: Message) -> int:
    attributes = sum(len(name) + len("String") + len(value.encode()) for name, value in message.attributes.items())
    return len(message.body.encode()) + attributes
