"""One invocation of an unmodified handler, in an environment of its own."""

import asyncio
import decimal
import io
import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from oneslot.explorer.execution.process import HandlerEnd, Program, RunningInvocation
from oneslot.explorer.handlers.memory.contents import Opaque
from oneslot.explorer.handlers.memory.memory import Imported, Memory, waiting_frames
from oneslot.explorer.handlers.program import TIMED_OUT, HandlerProgram, PerceivingInvocation
from oneslot.explorer.handlers.reached import ANSWERED
from oneslot.explorer.handlers.surroundings.environment import LambdaEnvironment, LambdaEnvironments, is_installed
from oneslot.explorer.refusal import NotExplorable, Stop
from oneslot.explorer.world import ApiCall
from oneslot.runtime.sqs import answer as answers

INJECTED = '"Message": "injected"'
"""What the text of an injected error has, and no other."""

POOL_REMEDY = "Leave the pool by `with`, or wait for its futures, because Lambda freezes what still runs"

DEFAULT_WORKERS = 5
"""The threads of an event loop's own executor on Lambda: four more than it has cores."""

LONGEST_OUTPUT = 4_000
"""The characters of an invocation's output that are kept, from its end."""

RUNTIME = str(Path(answers.__file__).parents[1])
"""The folder of the library that may run inside the handler."""

HANDLER_REMEDY = "Name the handler as its template does, such as app.handler."

OWN_FAILURES = (TIMED_OUT, SystemExit.__name__, answers.MarshalError.__name__, "InvalidAnswer")
"""How the errors of an invocation start that no other event would spare it."""

OF_AWS = "/boto"
"""What the files of boto3 and botocore have in their paths. Their exceptions reach the handler, or do not matter."""

AT_IMPORT = "at import"
"""How the error of an invocation starts whose module raised."""


class RunningHandler(PerceivingInvocation):
    """A running invocation. Its modules and its event loop are in place only while it runs."""

    def __init__(self, program: Program, clock: int, before: RunningInvocation | None = None) -> None:
        self.code = program.code  # type: ignore[attr-defined]
        self._invocation = program  # type: ignore[assignment]
        self.environment = getattr(before, "environment", None) or LambdaEnvironment()
        self.started_at = clock
        self.last_failed = False
        self.returned = ""
        self.output = ""
        self.raised = ""
        self.working = 0
        self.pools: dict[int, Any] = {}
        self.default_executor = ThreadPoolExecutor(DEFAULT_WORKERS)
        self.awaited: list[Any] = []
        """The tasks of threads that an event loop waits for."""
        self._loop: Any = None
        self._state_at_import: str | None = None
        """What the environment has of its own when it is fresh; None in one that is used again."""
        self._frames: list[FrameType] | None = None
        if before is None and self.code.unchanged:
            ended = self.code.unchanged.pop()  # it left its environment as the import had made it: as a fresh one
            self.environment, self._state_at_import = ended.environment, ended._state_at_import
        elif before in self.code.unchanged:  # run again, it left its environment as the import had made it
            self.code.unchanged.remove(before)
        super().__init__(program, clock, before)

    def wait(self, request: ApiCall) -> str:
        """See `RunningInvocation.wait`."""
        self.code.note_call(request, sys._getframe(1))
        operation = request.parts[0].rpartition(".")[2]
        self._frames = waiting_frames(
            self.code.visible, sys._getframe(1), operation, HandlerProgram.__call__.__qualname__
        )
        if self.code.is_watched:
            sys.settrace(None)  # an invocation that crashes here is never woken, and ends with the interpreter
        answer = super().wait(request)
        if answer.startswith(ANSWERED):
            self.code.reached.answered.add(request.text)
        self._begin_watch()
        return answer

    def memory(self) -> str | None:
        """See `RunningInvocation.memory`."""
        if self.outcome is not None and not self.outcome.dirty:
            return "clean"
        frames = [] if self.outcome is not None else self._frames
        if frames is None or len(self._strands) > 1 or self.is_importing or not self.code.shared.both:
            return None
        others = (self.started_at, self._slept, self._draws, self._uniques, self.last_failed, self._state_at_import)
        kept = (self.environment.read_at_import, self.environment.state)
        context = self._strands[0].context if self.outcome is None else self.environment.context
        try:
            memory = Memory(self.environment.modules, self.environment.imported, self.code.shared)
            return memory.of(self.code.visible, frames, context, *others, *kept)
        except Opaque as opaque:
            if self.outcome is not None:
                self.code.unseen = self.code.unseen or f"The handler keeps {opaque}"
            return None

    def answer(self, strand: int, observation: str, clock: int) -> None:
        """See `RunningInvocation.answer`."""
        if self.is_importing:
            self.environment.read_at_import += (observation,)
        self.has_read_clock = False
        # A condition that does not hold is an answer.
        self.last_failed = "unanswered" in observation[:14] or INJECTED in observation
        super().answer(strand, observation, clock)

    def note(self, text_of: Callable[[logging.LogRecord], str], record: logging.LogRecord) -> None:
        """Keep what is logged as output: no law reads a handler's log, and people do."""
        self.write(f"{text_of(record)}\n")

    def write(self, text: str) -> None:
        """Keep the end of the output."""
        self.output = f"{self.output}{text}"[-LONGEST_OUTPUT:]

    def _begin_watch(self) -> None:
        if self.code.is_watched:
            sys.settrace(self._watch)

    def _watch(self, frame: FrameType, what: str, argument: Any) -> Any:
        """Keep the last exception that passes through the handler, or through Oneslot's own consumer: see `sys.settrace`."""
        file, asked = frame.f_code.co_filename, self.code.asked
        is_own = self.code.is_own(file) or file.startswith(RUNTIME)
        if not is_own and (asked is None or not is_installed(file) or OF_AWS in file):
            return None
        frame.f_trace_lines = False
        if what == "exception" and not issubclass(argument[0], (StopIteration, GeneratorExit)):
            if asked is not None:
                asked.errors.append(argument[1])
            if is_own:
                self.raised = _text_of(argument[1]).removesuffix(": ")
        return self._watch

    def _main(self) -> None:
        failures: tuple[str, ...] = ()
        error, where = None, f"{AT_IMPORT}: "
        for variable, value in self.environment.context.items():
            variable.set(value)
        self._begin_watch()
        try:
            if self.before is None and self.is_importing:
                if self.code.load() is None:
                    self.refuse(f"{self.code.module} has no {self.code.function}. {HANDLER_REMEDY}")
                self._note_import()
            where = ""
            answer = self._program(self, None)  # type: ignore[arg-type]
            failures = tuple(failure["itemIdentifier"] for failure in answer["batchItemFailures"])
        except Exception as raised:
            error = f"{where}{_text_of(raised)}"
        except (Stop, SystemExit) as raised:
            error = f"{type(raised).__name__}: {raised}"
            self._state_at_import = None  # Lambda starts a new environment
        if self._dead:
            return  # Lambda has ended it
        if self.working and error is None and not self.has_timed_out:
            self.refusal = f"The handler returns while its thread pool works. {POOL_REMEDY}."
        self.environment.context = copy_context()
        own, dirty, recycled = self.environment, False, (error or "").startswith((Stop.__name__, SystemExit.__name__))
        if self._state_at_import is not None:  # the environment was fresh
            # The next invocation in it may find something else than a fresh one.
            dirty = self._clock_at_import or self.is_importing
            dirty = dirty or not own.imported.is_unchanged(self._modules(), own.context)
            dirty = dirty or _environments().state(own, self.now) != self._state_at_import
            # Another import reads what this one has read, so that the environment serves again.
            is_quiet = not own.read_at_import and (own.number, own.seed, own.random) == (None, None, None)
            if not dirty and len(self._strands) == 1 and is_quiet and self.code.shared.both:
                self.code.unchanged.append(self)
        self.code.reads_identity |= dirty
        unfinished = ("unfinished",) if self.last_failed else ()
        self.outcome = HandlerEnd(failures, error, (), unfinished, dirty, self.returned, self.raised, recycled)

    def _note_import(self) -> None:
        """Note what the environment is when it is fresh, and what its import has read that other imports may not."""
        if self._clock_at_import or self.environment.read_at_import or self._draws or self._uniques:
            self.environment.read_at_import += (self.started_at, self._invocation.identity)
        decimal.getcontext()  # Python makes it a context variable at its first use
        self.environment.imported = Imported(self._modules(), copy_context(), self.code.shared)
        self._state_at_import = _environments().state(self.environment, self.now)
        if self.code.shared.both:
            self.code.unseen = self.code.unseen or self.environment.imported.unseen()

    def _modules(self) -> dict[str, ModuleType | None]:
        return {name: sys.modules.get(name) for name in self.environment.modules}

    def _run(self) -> None:
        outer, out, errors, tracing = RunningInvocation.running, sys.stdout, sys.stderr, sys.gettrace()
        asyncio._set_running_loop(self._loop)
        sys.stdout = sys.stderr = _OUTPUT
        _environments().enter(self.environment)
        RunningInvocation.running = self
        try:
            self.run()
            if self.outcome is not None:
                self.code.last_words = (self.raised, self.output.strip().rpartition("\n")[2])
                self.kill()  # what waits for ever
        finally:
            RunningInvocation.running = outer
            _environments().leave(self.environment, self.now)
            self.has_read_clock |= self.environment.folder is not None  # a file is written at a time
            sys.stdout, sys.stderr = out, errors
            if self.code.is_watched:
                sys.settrace(tracing)
            self._loop = asyncio._get_running_loop()
            asyncio._set_running_loop(None)
        if self.refusal is not None:
            raise NotExplorable(self.refusal)


def _text_of(error: BaseException) -> str:
    """Return class and text of an exception; of a group, as `asyncio.TaskGroup` raises it, also of its first one."""
    text = f"{type(error).__name__}: {error}"
    return f"{text}: {_text_of(error.exceptions[0])}" if isinstance(error, BaseExceptionGroup) else text


class _Output(io.StringIO):
    """Standard output of every invocation. It is one, because a logger keeps the one that it was made with."""

    def write(self, text: str) -> int:
        """Give the text to the running invocation."""
        process = running()
        if process is not None:
            process.write(text)
        return len(text)


_OUTPUT = _Output()


def _environments() -> LambdaEnvironments:
    if LambdaEnvironments.current is None:
        raise RuntimeError("a handler runs within `taken_over` alone")
    return LambdaEnvironments.current


def running() -> RunningHandler | None:
    """Return the invocation whose code runs at this moment."""
    return RunningInvocation.running if isinstance(RunningInvocation.running, RunningHandler) else None
