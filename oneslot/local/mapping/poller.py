"""The poller of an event source mapping: threads that receive, invoke, and delete what succeeded.

Batches are made of single receives, by Lambda's batch size, batching window and payload limit.

One thread for each concurrent batch: long poll, collect, invoke, judge the answer, delete what succeeded. What failed is
left to its visibility timeout. SQS keeps the order of a FIFO queue: it hands out nothing of a group that is in flight.
Only messages that were received and did not fit into their batch must not overtake.

The number of concurrent batches is the mapping's MaximumConcurrency, and at most `threads`, the limit of this machine.
Lambda's own scaling from five batches on is left out: this machine has fewer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.mapping.configuration import MappingConfiguration
from oneslot.local.mapping.handler_process import Answered, FunctionError, Outcome, Throttled
from oneslot.runtime.sqs.answer import Invalid, Split, judge
from oneslot.runtime.sqs.batches import delete_messages
from oneslot.runtime.sqs.lambda_event import event
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.surroundings import Event, Surroundings, Thread

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

LOG = logging.getLogger(__name__)
RECEIVE_MAXIMUM = 10  # messages, SQS's limit for one ReceiveMessage
# Seconds of one long poll. AWS takes 20; here a stop waits for the poll, and an idle poll on loopback costs nothing.
LONG_POLL_SECONDS = 1
PAYLOAD_LIMIT = 6 * 1024 * 1024  # bytes, Lambda's quota for a synchronous invocation
_SHORT_PAUSE = 0.1  # seconds, when the window ends too soon for a long poll, which takes whole seconds

Receive = Callable[[int, int], "list[MessageTypeDef]"]
_DELETING_MS = 4_000  # for one batch
_PAUSE_AFTER_ERROR = 1.0  # seconds before the next poll of a queue that could not be reached
_PAUSE_WHEN_THROTTLED = 0.1  # seconds before a throttled batch is offered again


@dataclass(frozen=True)
class Statistics:
    """A snapshot. All are totals since the poller was created, but `in_flight`, which is current."""

    records: int = 0  # messages received and handed to the function
    deleted: int = 0  # messages deleted after success
    delete_refused: int = 0  # deletions that SQS refused or did not confirm; it may redeliver those
    failed: int = 0  # messages left to their visibility timeout
    function_errors: int = 0  # invocations that ended as a whole: exception, timeout, crash, invalid answer
    throttles: int = 0  # batches that no process took before their visibility timeout
    in_flight: int = 0  # messages in the function's hands now
    last_error: str = ""  # the last error's class and place, never its text, which may hold personal data

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Statistics:
        """Read what `asdict` gave; unknown keys are ignored, so an older reader can read a newer file."""
        names = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in names})


class StatisticsCounter:
    """Counters of the poller's threads. Safe to use from many threads."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._lock = surroundings.threads.lock()
        self._current = Statistics()

    def add(self, *, last_error: str | None = None, **changes: int) -> None:
        """Add each number to the field of its name. `in_flight` also takes negative ones."""
        with self._lock:
            added = {name: getattr(self._current, name) + change for name, change in changes.items()}
            error = self._current.last_error if last_error is None else last_error
            self._current = replace(self._current, last_error=error, **added)

    def snapshot(self) -> Statistics:
        """Return the current numbers."""
        with self._lock:
            return self._current


class Poller:
    """The threads from one start of the mapping to its stop. Many threads call `invoke`, which runs the function once."""

    def __init__(
        self,
        configuration: MappingConfiguration,
        *,
        invoke: Callable[[dict[str, Any]], Outcome],
        sqs: SQSClient,
        threads: int,
        counter: StatisticsCounter,
        surroundings: Surroundings,
    ) -> None:
        self.configuration = configuration
        maximum = configuration.maximum_concurrency
        self.size = threads if maximum is None else min(threads, maximum)
        self._invoke = invoke
        self._sqs = sqs
        self._fifo = is_fifo(configuration.queue.arn)
        self._counter = counter
        self._surroundings = surroundings
        self._stopping = surroundings.threads.event()
        self._threads: list[Thread] = []

    def start(self) -> None:
        start = self._surroundings.threads.start
        self._threads = [start(self._poll, f"poller-{number}") for number in range(self.size)]

    def finish(self) -> None:
        """Receive nothing more, and wait until the batches in hand are finished."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _poll(self) -> None:
        carried = Batch()
        while carried.messages or not self._stopping.is_set():
            try:
                batch, rest = collect(
                    self._receive,
                    batch_size=self.configuration.batch_size,
                    window_seconds=self.configuration.batching_window_seconds,
                    # The function can still take its time before the oldest message is visible again.
                    oldest_seconds=self.configuration.queue.visibility_timeout_seconds
                    - self.configuration.function.timeout_seconds,
                    carried=carried,
                    surroundings=self._surroundings,
                    stopping=self._stopping,
                )
                carried = Batch()  # after an error from here on, SQS redelivers them with the others of their batch
                if batch.messages:
                    failed = self._handle(batch)
                    carried = not_behind(failed, rest) if self._fifo else rest
            except Exception as error:
                # The queue is unreachable, no process can start, or this code has a defect. The thread must go on, because
                # nothing would replace it. SQS redelivers what was received.
                ours = not isinstance(error, BotoCoreError | ClientError | OSError)
                LOG.warning("The poller continues after %s.", type(error).__name__, exc_info=ours)
                self._counter.add(last_error=type(error).__name__)
                self._stopping.wait(_PAUSE_AFTER_ERROR)

    def _receive(self, how_many: int, wait_seconds: int) -> list[MessageTypeDef]:
        answer = self._sqs.receive_message(
            QueueUrl=self.configuration.queue.url,
            MaxNumberOfMessages=how_many,
            WaitTimeSeconds=wait_seconds,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return answer.get("Messages", [])

    def _handle(self, batch: Batch) -> list[MessageTypeDef]:
        """Invoke with these, delete what succeeded, and return the others."""
        count = len(batch.messages)
        self._counter.add(records=count, in_flight=count)
        try:
            succeeded = self._judge(self._offer(batch), [message["MessageId"] for message in batch.messages])
            receipts = [each["ReceiptHandle"] for each in batch.messages if each["MessageId"] in succeeded]
            failed = [each for each in batch.messages if each["MessageId"] not in succeeded]
            deletion = delete_messages(
                self._sqs,
                self.configuration.queue.url,
                receipts,
                self._surroundings,
                within_ms=_DELETING_MS,
                on_error=lambda error: LOG.warning("deleting a batch failed: %s", type(error).__name__),
            )
            deleted = len(deletion.deleted)
            self._counter.add(deleted=deleted, delete_refused=len(receipts) - deleted, failed=len(failed))
            return failed
        finally:
            self._counter.add(in_flight=-count)

    def _offer(self, batch: Batch) -> Outcome:
        queue = self.configuration.queue
        payload = event(batch.messages, queue_arn=queue.arn, region=queue.region)
        # A later offer would race the next delivery of the oldest message.
        while self._surroundings.steady() < batch.since + queue.visibility_timeout_seconds:
            outcome = self._invoke(payload)
            if not isinstance(outcome, Throttled):
                return outcome
            if self._stopping.wait(_PAUSE_WHEN_THROTTLED):
                break
        return Throttled()

    def _judge(self, outcome: Outcome, message_ids: Sequence[str]) -> Sequence[str]:
        """Return the messages to delete; none if the whole batch failed."""
        if isinstance(outcome, Throttled):
            self._counter.add(throttles=1, last_error="Throttled")
            return ()
        if isinstance(outcome, Answered):
            verdict = judge(outcome.answer, message_ids, reports_failures=self.configuration.reports_failures)
            if isinstance(verdict, Split):
                return verdict.succeeded
            LOG.warning("The function's answer is invalid: %s", verdict.reason)
        failed = outcome.error_type if isinstance(outcome, FunctionError) else Invalid.__name__
        self._counter.add(function_errors=1, last_error=failed)
        return ()


@dataclass(frozen=True)
class Batch:
    """Messages in hand, and the time before the call that received the oldest: seconds on the steady clock."""

    messages: tuple[MessageTypeDef, ...] = ()
    since: float = 0.0


def collect(
    receive: Receive,
    *,
    batch_size: int,
    window_seconds: float,
    oldest_seconds: float,
    carried: Batch,
    surroundings: Surroundings,
    stopping: Event,
) -> tuple[Batch, Batch]:
    """Collect a batch, empty if one long poll brought nothing; return it, and what did not fit and goes into the next.

    receive(how_many, wait_seconds) returns messages. The window opens with the first message in hand. It closes early when
    the oldest message is `oldest_seconds` old, and when the poller stops.
    """
    messages, oldest, newest = list(carried.messages), carried.since, carried.since
    if not messages:
        oldest = newest = surroundings.steady()
        messages += receive(min(batch_size, RECEIVE_MAXIMUM), LONG_POLL_SECONDS)
    closes = min(surroundings.steady() + window_seconds, oldest + oldest_seconds)
    while messages and len(messages) < batch_size and _payload(messages) < PAYLOAD_LIMIT:
        now = surroundings.steady()
        left = closes - now
        if left <= 0 or stopping.is_set():
            break
        newest = now
        more = receive(min(batch_size - len(messages), RECEIVE_MAXIMUM), int(min(left, LONG_POLL_SECONDS)))
        messages += more
        if not more and left < LONG_POLL_SECONDS:
            stopping.wait(min(left, _SHORT_PAUSE))
    end = fitting(messages, batch_size=batch_size)
    # All that does not fit came with the last receive: there is none once a batch is full.
    return Batch(tuple(messages[:end]), oldest), Batch(tuple(messages[end:]), newest)


def fitting(messages: Sequence[MessageTypeDef], *, batch_size: int) -> int:
    """Return how many fit into one invocation, by the batch size and Lambda's payload limit; the first always does."""
    size = 0
    for position, message in enumerate(messages):
        size += _payload([message])
        if position and (position >= batch_size or size > PAYLOAD_LIMIT):
            return position
    return len(messages)


def not_behind(failed: Sequence[MessageTypeDef], carried: Batch) -> Batch:
    """Return the carried messages of a FIFO queue whose group had no failure.

    SQS redelivers the others together with the failed message.
    """
    stopped = {message["Attributes"]["MessageGroupId"] for message in failed}
    kept = tuple(each for each in carried.messages if each["Attributes"]["MessageGroupId"] not in stopped)
    return replace(carried, messages=kept)


def _payload(messages: Sequence[MessageTypeDef]) -> int:
    """Return about the size of the records: bodies and attributes dominate, and the keys are estimated."""
    total = 0
    for message in messages:
        total += 1000 + len(json.dumps(message["Body"]))
        for name, value in message.get("MessageAttributes", {}).items():
            total += 150 + len(name) + len(value.get("StringValue", "")) + len(value.get("BinaryValue", b"")) * 4 // 3
    return total
