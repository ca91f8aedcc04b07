"""One invocation of the code under test, stopped at every API call: a greenlet for it, and one for each of its threads.

Nothing of the code is changed or left out. It perceives only the answers to its calls and the clock, so these determine
what it does next.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from botocore.exceptions import ClientError, ReadTimeoutError
from greenlet import GreenletExit

from oneslot.explorer.execution.scheduler import Scheduler, Strand
from oneslot.explorer.renaming import OWN_NAME
from oneslot.explorer.world import ApiCall
from oneslot.runtime.surroundings import Surroundings

TIMEOUT = "timeout"
"""The name of the call by which a strand waits for the end of a timeout that the code gave."""

LEASE_MS = 30_000
"""The function's timeout, which is also the length of a lease."""


@dataclass(frozen=True)
class HandlerEnd:
    """The end of an invocation: the SQS ids it reported as failed, its error, its delivery log, its other log lines.

    `answer`: what the code returned, as JSON, if a law reads it.
    `raised`: the last exception that a watched handler saw, to show beside a failure that it reports.
    `dirty`: the next invocation in this environment may behave differently from one in a fresh environment.
    `recycled`: Lambda starts the next invocation in a fresh one, because the process exited or ran into its timeout.
    """

    failed: tuple[str, ...] = ()
    error: str | None = None
    lines: tuple[str, ...] = ()
    logged: tuple[str, ...] = ()
    dirty: bool = False
    answer: str = ""
    raised: str = ""
    recycled: bool = False


@dataclass
class InvocationContext:
    """Lambda's context."""

    process: RunningInvocation
    aws_request_id: str = f"request-of-{OWN_NAME}"
    deadline: int = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.process.clock + LEASE_MS

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds that are left."""
        return max(0, self.deadline - self.process.clock)


Program = Callable[["RunningInvocation", InvocationContext], Mapping[str, Any]]
"""The code under test: it makes its consumer from the process' clients, invokes it, and returns the batch response."""


class RunningInvocation(Scheduler):
    """A running invocation. `pending` holds the call at which each of its strands waits.

    `before` is the invocation that left the environment in which this one runs; None for a fresh environment.

    `running` is the process whose code runs at this moment: processes take turns in one thread.
    """

    running: ClassVar[RunningInvocation | None] = None
    has_read_clock = True
    """Whether what it did since its last answer may depend on the time."""

    def __init__(self, program: Program, clock: int, before: RunningInvocation | None = None) -> None:
        super().__init__()
        self.before = before
        self.clock = clock
        self.pending: dict[int, ApiCall] = {}
        self.outcome: HandlerEnd | None = None
        self.lines: list[str] = []
        self.logged: list[str] = []
        self._program = program
        self._ids = 0
        self._strands: list[Strand] = []
        self.start_strand(self._main)
        self._run()

    def answer(self, strand: int, observation: str, clock: int) -> None:
        """Answer a strand's call at `clock` (epoch ms), and run until all strands wait again."""
        self.clock = clock
        del self.pending[strand]
        self.wake(self._strands[strand], observation)
        self._run()

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Make an API call from inside: wait for the explorer, then return or raise as boto3's client would."""
        observation = json.loads(self.wait(ApiCall.of(operation, parameters)))
        if "answer" in observation:
            return observation["answer"]
        if "unanswered" in observation:
            raise ReadTimeoutError(endpoint_url="https://dynamodb.example/")
        raise ClientError(observation["error"], "".join(word.capitalize() for word in operation.split("_")))

    def wait(self, request: ApiCall) -> str:
        """Wait, from inside a strand, for the observation of a request."""
        if self._dead:
            raise GreenletExit
        self.pending[self._strands.index(cast("Strand", self.current))] = request
        return cast("str", self.pause())

    def new_id(self) -> str:
        """Return a fresh id: the invocation's own name and a count."""
        self._ids += 1
        return f"{OWN_NAME}-{self._ids}"

    @property
    def surroundings(self) -> Surroundings:
        """The explorer's clock, counted ids, no sleep and no jitter."""
        return Surroundings(
            now_ms=lambda: self.clock, new_id=self.new_id, sleep=lambda seconds: None, jitter=lambda: 0.0
        )

    def log(self, line: Mapping[str, Any]) -> None:
        """Keep a line of the delivery log."""
        if not self._dead:
            self.lines.append(json.dumps(line, sort_keys=True))

    def note(self, text_of: Callable[[logging.LogRecord], str], record: logging.LogRecord) -> None:
        """Keep a line that was logged beside the delivery log."""
        if not self._dead:
            self.logged.append(text_of(record))

    def memory(self) -> str | None:
        """Return a text that is equal for invocations which continue equally; None if only the history can say."""
        return None

    def end(self, failed: tuple[str, ...] = (), error: str | None = None) -> HandlerEnd:
        """End the invocation, with what it has logged so far."""
        self.outcome = HandlerEnd(failed, error, tuple(self.lines), tuple(self.logged))
        return self.outcome

    def start_strand(self, body: Callable[[], None]) -> None:
        """Start a strand, which runs when all others wait."""
        strand = Strand(body)
        self._strands.append(strand)
        self.start(strand)

    def wait_for_any(self, futures: Iterable[Future[Any]], timeout: float | None = None) -> bool:
        """Wait, from inside a strand, until another strand has finished one of these tasks, or the timeout (s) has passed.

        Return whether one is finished. That the timeout passes is a fault: a call takes too long.
        """
        strand = cast("Strand", self.current)
        number = self._strands.index(strand)
        woken: list[Future[Any]] = []

        def wake(future: Future[Any]) -> None:
            if not woken:
                woken.append(future)
                self.pending.pop(number, None)
                self.wake(strand)

        for future in futures:
            future.add_done_callback(wake)
        if timeout is not None:
            self.pending[number] = ApiCall.of(TIMEOUT, {"seconds": timeout})
        if self.pause() is None:
            return True
        woken.append(Future())
        self.pass_time(cast("float", timeout))
        return False

    def pass_time(self, seconds: float) -> None:
        """Let a timeout pass within this invocation."""

    def kill(self) -> None:
        """End the invocation without another call."""
        self._dead = True
        for strand in self._strands:
            strand.kill()

    def _main(self) -> None:
        try:
            answer = self._program(self, InvocationContext(self))
        except Exception as error:
            self.end(error=f"{type(error).__name__}: {error}")
            return
        self.end(tuple(failure["itemIdentifier"] for failure in answer["batchItemFailures"]))

    def _run(self) -> None:
        RunningInvocation.running = self
        self.run()
        RunningInvocation.running = None


class StrandFuture(Future[Any]):
    """The future of a strand's task."""

    def __init__(self, process: RunningInvocation) -> None:
        super().__init__()
        self._process = process

    # Python's own methods would block the only thread.
    def result(self, timeout: float | None = None) -> Any:
        """Return the task's result, or raise its error."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the task's error."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        while not self.done():
            if not self._process.wait_for_any([self], timeout):
                raise TimeoutError


class _LogCapture(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if RunningInvocation.running is not None:
            RunningInvocation.running.note(self.format, record)


@contextmanager
def capture_logs() -> Iterator[None]:
    """Let every process keep what it logs by Python's logging, for the laws to read. Also a decorator.

    Captures from INFO on, as Lambda shows it, with the text of exceptions.
    """
    root = logging.getLogger()
    capture, level = _LogCapture(), root.level
    root.addHandler(capture)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(capture)
