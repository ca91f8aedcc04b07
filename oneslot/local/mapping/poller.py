"""The poller of an event source mapping: threads that receive, invoke, and delete what succeeded.

One thread for each concurrent batch: long poll, collect, invoke, judge the answer, delete what succeeded. What failed is
left to its visibility timeout. SQS keeps the order of a FIFO queue: it hands out nothing of a group that is in flight.
Only messages that were received and did not fit into their batch must not overtake.

The number of concurrent batches is the mapping's MaximumConcurrency, and at most `threads`, the limit of this machine.
Lambda's own scaling from five batches on is left out: this machine has fewer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.mapping.batching import Batch, collect, not_behind
from oneslot.local.mapping.configuration import MappingConfiguration
from oneslot.local.mapping.handler_process import Answered, FunctionError, Outcome, Throttled
from oneslot.local.mapping.statistics import StatisticsCounter
from oneslot.runtime.sqs.answer import Invalid, Split, judge
from oneslot.runtime.sqs.batches import Deletion, delete_messages
from oneslot.runtime.sqs.lambda_event import event
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.surroundings import Surroundings, Thread

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

LOG = logging.getLogger(__name__)
_DELETING_MS = 4_000  # for one batch
_PAUSE_AFTER_ERROR = 1.0  # seconds before the next poll of a queue that could not be reached
_PAUSE_WHEN_THROTTLED = 0.1  # seconds before a throttled batch is offered again


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
                batch, rest = self._collect(carried)
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

    def _collect(self, carried: Batch) -> tuple[Batch, Batch]:
        configuration = self.configuration
        return collect(
            self._receive,
            batch_size=configuration.batch_size,
            window_seconds=configuration.batching_window_seconds,
            # The function can still take its time before the oldest message is visible again.
            oldest_seconds=configuration.queue.visibility_timeout_seconds - configuration.function.timeout_seconds,
            carried=carried,
            surroundings=self._surroundings,
            stopping=self._stopping,
        )

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
            deleted = len(self._delete(receipts).deleted)
            self._counter.add(deleted=deleted, delete_refused=len(receipts) - deleted, failed=len(failed))
            return failed
        finally:
            self._counter.add(in_flight=-count)

    def _delete(self, receipts: Sequence[str]) -> Deletion:
        return delete_messages(
            self._sqs,
            self.configuration.queue.url,
            receipts,
            self._surroundings,
            within_ms=_DELETING_MS,
            on_error=lambda error: LOG.warning("deleting a batch failed: %s", type(error).__name__),
        )

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
