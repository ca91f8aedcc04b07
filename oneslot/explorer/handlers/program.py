"""What one invocation of a handler runs: its event, Lambda's context, and what Lambda reads of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation
from oneslot.explorer.handlers.modules import Code, followed
from oneslot.runtime.sqs.answer import Invalid, encoded, judge

ANSWER_REMEDY = (
    'Return None or {"batchItemFailures": [...]}, or give reports_failures=False for a mapping without '
    "ReportBatchItemFailures."
)

SERVER_ERROR = 500


class ServerError(Exception):
    """An HTTP answer with a status of 500 or more: the client sends its request again."""


class InvalidAnswer(Exception):
    """The whole batch failed, because Lambda cannot read the answer."""


@dataclass(frozen=True)
class HandlerProgram:
    """The program of a process: the event, and what Lambda says beside it.

    Attributes:
        batch: the message of each identifier that an answer may report as failed; None if Lambda reads no answer.
        is_stream: whether the records after a failed one are delivered again, too.
        reads_status: whether a client reads the answer's HTTP status.
    """

    code: Code
    event: str
    identity: int
    timeout_ms: int
    batch: Mapping[str, str] | None
    is_stream: bool = False
    keeps_answer: bool = False
    reads_status: bool = False

    def __call__(self, process: RunningInvocation, context: Any) -> Mapping[str, Any]:
        """Run the handler once. Raises what it raises."""
        handler = self.code.load()
        if self.code.asked is not None:
            event = self.code.asked.event(self.event)
        else:
            event = followed(self.event) if self.code.follows else json.loads(self.event)
        answer = handler(event, HandlerContext(process, self))
        text = encoded(answer)
        if self.keeps_answer:
            process.returned = text  # type: ignore[attr-defined]
            with suppress(ValueError):  # bytes need not be JSON
                process.returned = json.dumps(json.loads(text), sort_keys=True)  # type: ignore[attr-defined]
        self.code.status = int(answer.get("statusCode", 200)) if self.reads_status and isinstance(answer, dict) else 0
        if self.code.status >= SERVER_ERROR:
            raise ServerError(f"it answers {self.code.status}")
        batch = self.batch or {}
        verdict = judge(text, tuple(batch), reports_failures=self.batch is not None)
        if isinstance(verdict, Invalid):
            raise InvalidAnswer(f"{verdict.reason} {ANSWER_REMEDY}")
        failed, ids = verdict.failed, tuple(batch)
        if self.is_stream and failed:
            failed = ids[ids.index(failed[0]) :]
        return {"batchItemFailures": [{"itemIdentifier": batch[one]} for one in failed]}


class HandlerContext:
    """Lambda's context."""

    def __init__(self, process: Any, invocation: HandlerProgram) -> None:
        self._process, self._invocation = process, invocation
        self.function_name = self.log_group_name = "explored"
        self.function_version, self.memory_limit_in_mb = "$LATEST", 128
        self.invoked_function_arn = "arn:aws:lambda:eu-west-2:000000000000:function:explored"
        self.identity = self.client_context = None
        self.number_of_invocation = invocation.identity

    @property
    def aws_request_id(self) -> str:
        """The id of the invocation."""
        self._process.code.reads_identity = True
        return f"5b4e0c1a-0000-4000-8000-{self._invocation.identity + 1:012d}"

    @property
    def log_stream_name(self) -> str:
        """The environment's own log stream."""
        return str(self._process.log_stream())

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds that are left: some fewer in each invocation."""
        self._process.code.reads_identity = True
        ends = self._process.started_at + self._invocation.timeout_ms - self._invocation.identity
        return int(max(0, ends - self._process.read_clock()))
