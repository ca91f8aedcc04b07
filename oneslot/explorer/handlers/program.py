"""What one invocation of a handler runs and perceives: its event and context, time and chance; and what Lambda reads of it."""

import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from oneslot.explorer.execution.process import HandlerEnd, RunningInvocation
from oneslot.explorer.handlers.modules import Code, followed
from oneslot.explorer.handlers.surroundings.chance import DRAW, LOG_STREAM, Draws
from oneslot.explorer.handlers.surroundings.environment import LambdaEnvironment
from oneslot.explorer.refusal import Stop
from oneslot.explorer.world import ApiCall
from oneslot.runtime.sqs.answer import Invalid, encoded, judge

ANSWER_REMEDY = (
    'Return None or {"batchItemFailures": [...]}, or give reports_failures=False for a mapping without '
    "ReportBatchItemFailures."
)

SERVER_ERROR = 500
BOTH_WAYS = 2
"""The random numbers of an invocation that are drawn low and high; later ones are fixed."""
FIXED = 0.4
"""About where later numbers are."""

TIMED_OUT = "TimeoutError: the function's timeout, while it sleeps"


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
            self.code.invalid_answer = verdict.reason
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


# A function of a module rather than a lambda, because a memory with a lambda of its own differs from all others.
def _running() -> Any:
    return RunningInvocation.running


def _importing() -> bool:
    """Return whether a module runs that is not the handler's: those are imported by the explorer."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "exec_module" and frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class PerceivingInvocation(RunningInvocation):
    """An invocation with a time, random numbers and ids of its own, which the explorer chooses; it notes what is read."""

    code: Code
    environment: LambdaEnvironment
    started_at: int
    refusal: str | None = None
    raised = ""
    has_timed_out = False
    _invocation: HandlerProgram
    _slept = _draws = _uniques = 0
    _clock_at_import = False

    @property
    def is_importing(self) -> bool:
        """Whether the handler's module still runs for the first time in this environment."""
        return self.environment.imported is None

    def read_clock(self) -> int:
        """Return the time (epoch ms), and note that the code has read it."""
        self.code.note_clock()
        self.has_read_clock = True
        self._clock_at_import |= self.is_importing
        return self.now

    @property
    def now(self) -> int:
        """The time of this invocation (epoch ms)."""
        return self.clock + self._slept

    def pass_time(self, seconds: float) -> None:
        """See `RunningInvocation.pass_time`. What still runs at the end is frozen, and its call is not made.

        See https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html.
        """
        self.has_timed_out = True
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        """Pass this invocation's time. At its timeout Lambda ends it, whatever it catches, with its environment."""
        self.has_read_clock = True
        self._slept += int(seconds * 1000)
        if self.clock + self._slept >= self.started_at + self._invocation.timeout_ms:
            self.outcome = HandlerEnd((), TIMED_OUT, raised=self.raised, recycled=True)
            self.pause()

    def unique_bytes(self, size: int) -> bytes:
        """Return bytes that no other invocation gets; zeros to a library that is imported, once for all invocations."""
        if _importing():
            return bytes(size)
        self.code.reads_identity = True
        self._uniques += 1
        digest = hashlib.sha256(f"{self._invocation.identity}/{self._uniques}".encode()).digest()
        return (digest * (size // len(digest) + 1))[:size]

    def draw(self) -> float:
        """Return a random number: the explorer's choice of low or high, then a fixed one."""
        if _importing():
            return FIXED
        self.code.reads_identity = True
        self._draws += 1
        apart = (7 * (self._invocation.identity * 8 + self._draws) % 1000 + 1) / 10_000
        if self._draws > BOTH_WAYS:
            return FIXED + apart
        self.code.draws = max(self.code.draws, self._draws)
        call = ApiCall.of(DRAW, {"identity": self._invocation.identity, "number": self._draws})
        high = json.loads(self.wait(call))["answer"]["high"]
        return 1 - apart if high else apart

    @property
    def random(self) -> Draws:
        """The random numbers of the module `random` in this environment."""
        if self.environment.random is None:
            self.environment.random = Draws(_running)
        return self.environment.random  # type: ignore[no-any-return]

    def number_of_environment(self) -> int:
        """Return the explorer's choice of 0, which other environments have too, or a number of this one alone."""
        self.code.reads_environment = True
        if self.environment.number is None:
            drawn = self.draw()
            self.environment.number = 0 if drawn < FIXED else self._invocation.identity + 1
        return self.environment.number

    def seed_of_environment(self) -> int:
        """Return the seed of this environment's hashes, which no other one has."""
        if self.environment.seed is None:
            self.code.reads_identity = self.code.reads_environment = True
            self.environment.seed = self._invocation.identity + 1
        return self.environment.seed

    def log_stream(self) -> str:
        """Return the name of this environment's log stream, also that of the variable AWS_LAMBDA_LOG_STREAM_NAME.

        Each environment has one: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html.
        """
        return f"{LOG_STREAM}{self.seed_of_environment():032x}"

    def refuse(self, sentence: str) -> NoReturn:
        """End the exploration with this sentence, whatever the handler catches."""
        self.refusal = sentence
        raise Stop(sentence)
