"""The local event source mapping: from the queue to the real handler and back, by AWS's rules.

The embedded AWS has a mapping of its own, but that one deletes batches which AWS would retry, ignores the batching
window and races other consumers. So it is switched off, and this one does its work with the configuration of the
deployed mapping, function and queue, read when it starts.

One thread per concurrent batch: long poll, collect, invoke, judge the answer, delete what succeeded. What failed is
left to its visibility timeout. A FIFO queue keeps its order by itself: SQS hands out nothing of a group of which
something is in flight. Only what was received and did not fit into its batch must not overtake.

How many batches run at once is the smallest of: AWS's own scaling (`scaling.py`), the
mapping's MaximumConcurrency, and `processes`. The last is this machine's limit and not AWS's: each concurrent batch is
a Python process here, and on two cores more of them only wait for each other.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.batching import Batch, collect, not_behind
from oneslot.local.mapping.configuration import MappingConfiguration, read_mapping
from oneslot.local.mapping.deletion import delete_messages
from oneslot.local.mapping.installation import install
from oneslot.local.mapping.invoker import Answered, FunctionError, HandlerPool, Installation, Outcome, Throttled
from oneslot.local.mapping.scaling import Scaling
from oneslot.local.mapping.statistics import Statistics, StatisticsCounter
from oneslot.runtime.sqs.batch_response import Invalid, Split, judge
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.sqs.lambda_event import event

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

LOG = logging.getLogger(__name__)
DEFAULT_PROCESSES = 4
_PAUSE_AFTER_ERROR = 1.0  # seconds before the queue is asked again after it could not be reached
_PAUSE_WHEN_THROTTLED = 0.1  # seconds before a throttled batch is offered again
_PAUSE_WHEN_SCALED_DOWN = 0.1  # seconds before a thread beyond the allowed concurrency looks again


class EventSourceMapping:
    """A poller for one deployed mapping. Start and stop it as often as you like; each start reads the configuration."""

    def __init__(
        self, connection: Connection, mapping_id: str, *, folder: Path, processes: int = DEFAULT_PROCESSES
    ) -> None:
        """connection: where the stack is deployed. mapping_id: the mapping's UUID. folder: for the unpacked function
        and the logs (`consumer.jsonl`: every line the handler wrote). processes: how many may run at once here.
        """
        self._connection = connection
        self._mapping_id = mapping_id
        self._folder = folder
        self._processes = processes
        self._counter = StatisticsCounter()
        self._stopping = threading.Event()
        self._run: _Run | None = None

    @property
    def log_file(self) -> Path:
        """The handler's standard output, appended to by every process of every start."""
        return self._folder / "consumer.jsonl"

    @property
    def running(self) -> bool:
        """Whether it has been started and not stopped."""
        return self._run is not None

    @property
    def configuration(self) -> MappingConfiguration:
        """What was read from the deployed mapping at the last start. `LookupError` if it does not run."""
        return self._started().configuration

    @property
    def statistics(self) -> Statistics:
        """The numbers at this instant, summed over all starts."""
        snapshot = self._counter.snapshot()
        return snapshot if self._run is None else replace(snapshot, concurrency=self._run.allowed())

    def handler_pids(self) -> list[int]:
        """Return the ids of the handler processes that live now, so that a test can kill one in the middle."""
        return [] if self._run is None else self._run.pool.pids()

    def start(self) -> FunctionError | None:
        """Read the configuration, switch the emulator's own mapping off, warm the processes, and poll.

        Raises `UnsupportedMapping`, or botocore's errors if the mapping cannot be read. A handler that cannot be
        imported is no error here, as it is none on AWS: what hindered it is returned, its invocations fail, and the
        statistics say so.
        """
        if self._run is not None:
            return None
        functions = self._connection.functions()
        sqs = self._connection.sqs()
        try:
            configuration = read_mapping(self._mapping_id, functions=functions, sqs=sqs)
            functions.update_event_source_mapping(UUID=self._mapping_id, Enabled=False)
            code = install(configuration.function.code_url, self._folder / "function")
        except BaseException:
            sqs.close()
            raise
        finally:
            functions.close()
        installation = Installation(
            function=configuration.function,
            code=code,
            connection=self._connection,
            log_file=self.log_file,
            error_file=self._folder / "handler.stderr.log",
        )
        self._stopping.clear()
        self._run = _Run(
            configuration,
            installation=installation,
            sqs=sqs,
            processes=self._processes,
            counter=self._counter,
            stopping=self._stopping,
        )
        try:
            return self._run.start()
        except BaseException:  # Ctrl-C too: half a start leaves nothing running
            self.stop()
            raise

    def stop(self) -> None:
        """Receive nothing more, let the batches in hand finish (at most the function's timeout), end the processes."""
        run, self._run = self._run, None
        if run is not None:
            self._stopping.set()
            run.finish()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> _Run:
        if self._run is None:
            raise LookupError("The poller does not run: it reads the configuration when it starts.")
        return self._run


class _Run:
    """From one start to its stop."""

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
                carried = ()  # whatever goes wrong from here on, they come again with the others of their batch
                if batch.messages:
                    failed = self._handle(batch.messages)
                    carried = not_behind(failed, batch.carried) if self._fifo else batch.carried
                else:
                    self._scaling.nothing_received()
            except Exception as error:
                # The queue cannot be reached, no process can be started, or there is a fault in here. A thread that ended
                # would be missed by nobody: it goes on, and says what it was. What was received comes again by itself.
                LOG.warning("the poller goes on after %s", type(error).__name__, exc_info=_is_ours(error))
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
            # Offering it once more after the visibility timeout would race the message's next delivery.
            if time.monotonic() >= visible_again or self._stopping.wait(_PAUSE_WHEN_THROTTLED):
                return outcome

    def _judge(self, outcome: Outcome, messages: tuple[MessageTypeDef, ...]) -> Split | None:
        """Return which messages to delete; None if none of them."""
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
            LOG.warning("the function's answer is invalid: %s", verdict.reason)
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
        """Write what Lambda's JSON log says of an invocation that failed: a killed handler cannot say it itself."""
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
