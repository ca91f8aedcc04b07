"""The poller of an event source mapping: threads that receive, invoke, and delete what succeeded.

One thread for each concurrent batch: long poll, collect, invoke, judge the answer, delete what succeeded. What failed is
left to its visibility timeout. SQS keeps the order of a FIFO queue: it hands out nothing of a group that is in flight.
Only messages that were received and did not fit into their batch must not overtake.

The number of concurrent batches is the smallest of AWS's own scaling (`scaling.py`), the mapping's MaximumConcurrency,
and `processes`. The last is the limit of this machine: each concurrent batch is a Python process.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.mapping.batching import Batch, collect, not_behind
from oneslot.local.mapping.configuration import MappingConfiguration
from oneslot.local.mapping.deletion import delete_messages
from oneslot.local.mapping.handler_pool import HandlerPool
from oneslot.local.mapping.handler_process import Answered, FunctionError, Outcome, Throttled
from oneslot.local.mapping.installation import Installation
from oneslot.local.mapping.scaling import Scaling
from oneslot.local.mapping.statistics import StatisticsCounter
from oneslot.runtime.sqs.batch_response import Invalid, Split, judge
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.sqs.lambda_event import event

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

LOG = logging.getLogger(__name__)
_PAUSE_AFTER_ERROR = 1.0  # seconds before the next poll of a queue that could not be reached
_PAUSE_WHEN_THROTTLED = 0.1  # seconds before a throttled batch is offered again
_PAUSE_WHEN_SCALED_DOWN = 0.1  # seconds before a thread beyond the allowed concurrency looks again


class Poller:
    """The threads and handler processes from one start of the mapping to its stop."""

    def __init__(
        self,
        configuration: MappingConfiguration,
        *,
        installation: Installation,
        sqs: SQSClient,
        processes: int,
        counter: StatisticsCounter,
        stopping: threading.Event,
    ) -> None:
        self.configuration = configuration
        reserved = configuration.function.reserved_concurrency
        self.pool = HandlerPool(installation, size=processes if reserved is None else min(processes, reserved))
        self._sqs = sqs
        self._fifo = is_fifo(configuration.queue.arn)
        self._log_file = installation.log_file
        self._counter = counter
        self._stopping = stopping
        self._scaling = Scaling(configuration.maximum_concurrency, time.monotonic)
        maximum = configuration.maximum_concurrency
        self._threads = [
            threading.Thread(target=self._poll, args=(number,), name=f"poller-{number}", daemon=True)
            for number in range(processes if maximum is None else min(processes, maximum))
        ]

    def allowed(self) -> int:
        return min(self._scaling.allowed(), len(self._threads))

    def start(self) -> FunctionError | None:
        if error := self.pool.warm(self.allowed()):
            self._counter.add(last_error=error.error_type)
        for thread in self._threads:
            thread.start()
        return error

    def finish(self) -> None:
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self.pool.close()
        self._sqs.close()

    def _poll(self, number: int) -> None:
        carried: tuple[MessageTypeDef, ...] = ()
        while carried or not self._stopping.is_set():
            if not carried and number >= self._scaling.allowed():
                self._stopping.wait(_PAUSE_WHEN_SCALED_DOWN)
                continue
            try:
                batch = self._collect(carried)
                carried = ()  # after an error from here on, SQS redelivers them with the others of their batch
                if batch.messages:
                    failed = self._handle(batch.messages)
                    carried = not_behind(failed, batch.carried) if self._fifo else batch.carried
                else:
                    self._scaling.nothing_received()
            except Exception as error:
                # The queue is unreachable, no process can start, or this code has a defect. The thread must go on, because
                # nothing would replace it. SQS redelivers what was received.
                LOG.warning("The poller continues after %s.", type(error).__name__, exc_info=_is_ours(error))
                self._counter.add(last_error=type(error).__name__)
                self._stopping.wait(_PAUSE_AFTER_ERROR)

    def _collect(self, carried: tuple[MessageTypeDef, ...]) -> Batch:
        return collect(
            self._receive,
            batch_size=self.configuration.batch_size,
            window_seconds=self.configuration.batching_window_seconds,
            carried=carried,
            clock=time.monotonic,
            pause=self._stopping.wait,
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

    def _handle(self, messages: tuple[MessageTypeDef, ...]) -> tuple[MessageTypeDef, ...]:
        """Invoke with these, delete what succeeded, and return the others."""
        self._counter.add(records=len(messages), in_flight=len(messages))
        try:
            request_id = str(uuid.uuid4())
            started = time.monotonic()
            outcome = self._invoke(messages, request_id)
            split = self._judge(outcome, messages)
            if isinstance(outcome, FunctionError):
                self._report(outcome, request_id, time.monotonic() - started)
            if split is None:
                self._counter.add(failed=len(messages))
                return messages
            self._settle(split, messages)
            return tuple(message for message in messages if message["MessageId"] in split.failed)
        finally:
            self._counter.add(in_flight=-len(messages))

    def _invoke(self, messages: tuple[MessageTypeDef, ...], request_id: str) -> Outcome:
        queue = self.configuration.queue
        payload = event(messages, queue_arn=queue.arn, region=queue.region)
        visible_again = time.monotonic() + queue.visibility_timeout_seconds
        while True:
            outcome = self.pool.invoke(payload, request_id=request_id)
            if not isinstance(outcome, Throttled):
                self._counter.add(batches=1)
                return outcome
            # Another offer after the visibility timeout would race the next delivery of the message.
            if time.monotonic() >= visible_again or self._stopping.wait(_PAUSE_WHEN_THROTTLED):
                return outcome

    def _judge(self, outcome: Outcome, messages: tuple[MessageTypeDef, ...]) -> Split | None:
        """Return which messages to delete and which to leave; None if the whole batch failed."""
        if isinstance(outcome, Throttled):
            self._counter.add(throttles=1, last_error="Throttled")
            return None
        if isinstance(outcome, Answered):
            verdict = judge(
                outcome.answer,
                [message["MessageId"] for message in messages],
                reports_failures=self.configuration.reports_failures,
            )
            if isinstance(verdict, Split):
                return verdict
            LOG.warning("The function's answer is invalid: %s", verdict.reason)
        error_type = Invalid.__name__ if isinstance(outcome, Answered) else outcome.error_type
        kind = None if isinstance(outcome, Answered) else outcome.kind
        self._counter.add(
            function_errors=1, timeouts=int(kind == "timeout"), crashes=int(kind == "crash"), last_error=error_type
        )
        self._scaling.function_error()
        return None

    def _settle(self, split: Split, messages: tuple[MessageTypeDef, ...]) -> None:
        receipts = {message["MessageId"]: message["ReceiptHandle"] for message in messages}
        deletion = delete_messages(
            self._sqs,
            self.configuration.queue.url,
            {message_id: receipts[message_id] for message_id in split.succeeded},
        )
        self._counter.add(
            deleted=len(deletion.deleted), delete_refused=len(deletion.unconfirmed), failed=len(split.failed)
        )

    def _report(self, error: FunctionError, request_id: str, seconds: float) -> None:
        """Log a failed invocation as Lambda's JSON log does, because a killed handler cannot."""
        status = {"timeout": "timeout", "exception": "error"}.get(error.kind, "failure")
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "type": "platform.report",
            "record": {
                "requestId": request_id,
                "status": status,
                "errorType": error.error_type,
                "metrics": {"durationMs": round(seconds * 1000, 3)},
            },
        }
        descriptor = os.open(self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)


def _is_ours(error: Exception) -> bool:
    return not isinstance(error, BotoCoreError | ClientError | OSError)
