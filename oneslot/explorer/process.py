"""One invocation of the code under test, stopped at every API call: a greenlet for it, and one for each of its threads.

Nothing of the code is changed or left out. What it can perceive is the answers to its calls and the clock, so these
determine what it does next; `Behaviour` remembers that, and runs the code only for histories that nobody has asked for yet.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from botocore.exceptions import ClientError, ReadTimeoutError
from greenlet import GreenletExit, getcurrent, greenlet

from oneslot.explorer.world import Request
from oneslot.runtime.backoff import Surroundings

LEASE_MS = 30_000
"""The function's timeout, and so the length of a lease."""

MAXIMUM_CALLS = 60
"""An invocation that makes more API calls than this is said never to end."""

OWN_NAME = "delivery-0"
"""How an invocation names itself in its ids; the explorer renames it for each delivery."""


@dataclass(frozen=True)
class Outcome:
    """How an invocation ended.

    The SQS ids that it reported as failed, an error if it raised, its delivery log, and what else it logged.
    """

    failed: tuple[str, ...] = ()
    error: str | None = None
    lines: tuple[str, ...] = ()
    logged: tuple[str, ...] = ()


@dataclass
class Context:
    """Lambda's context."""

    process: Process
    aws_request_id: str = f"request-of-{OWN_NAME}"
    deadline: int = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.process.clock + LEASE_MS

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        return max(0, self.deadline - self.process.clock)


Program = Callable[["Process", Context], Mapping[str, Any]]
"""The code under test: makes its consumer from the process' clients and invokes it; returns the batch response."""


class Process:
    """A running invocation. `pending` holds the call at which each of its strands waits.

    `running` is the one whose code runs at this moment: there is one thread, and processes take turns in it.
    """

    running: ClassVar[Process | None] = None

    def __init__(self, program: Program, clock: int) -> None:
        self.clock = clock
        self.pending: dict[int, Request] = {}
        self.outcome: Outcome | None = None
        self.lines: list[str] = []
        self.logged: list[str] = []
        self._program = program
        self._ids = 0
        self._strands: list[greenlet] = []
        self._ready: list[tuple[int, tuple[Any, ...]]] = []
        self._waiting: list[tuple[int, Future[Any]]] = []
        self._dead = False
        self._hub: greenlet | None = None
        self.start_strand(self._main)
        self._run()

    def answer(self, strand: int, observation: str, clock: int) -> None:
        """Let a strand see what became of its call, at `clock` (epoch ms), and run until all strands wait again."""
        self.clock = clock
        del self.pending[strand]
        self._ready.append((strand, (observation,)))
        self._run()

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Make an API call, from inside: waits for the explorer, then returns or raises as boto3's client would."""
        observation = json.loads(self.wait(Request.of(operation, parameters)))
        if "answer" in observation:
            return observation["answer"]
        if "unanswered" in observation:
            raise ReadTimeoutError(endpoint_url="https://dynamodb.example/")
        raise ClientError(observation["error"], "".join(word.capitalize() for word in operation.split("_")))

    def wait(self, request: Request) -> str:
        """Wait, from inside a strand, for what becomes of a request."""
        if self._dead:
            raise GreenletExit
        self.pending[self._strands.index(cast("greenlet", getcurrent()))] = request
        return cast("str", self._switch_out())

    def new_id(self) -> str:
        """A fresh id: the invocation's own name and a count."""
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

    def note(self, text: str) -> None:
        """Keep what it logged by any other way than its delivery log."""
        if not self._dead:
            self.logged.append(text)

    def end(self, failed: tuple[str, ...] = (), error: str | None = None) -> Outcome:
        """End it like this, with what it has logged so far."""
        self.outcome = Outcome(failed, error, tuple(self.lines), tuple(self.logged))
        return self.outcome

    def start_strand(self, body: Callable[[], None]) -> int:
        """Make a strand; it runs when all others wait."""
        self._strands.append(greenlet(body))
        self._ready.append((len(self._strands) - 1, ()))
        return len(self._strands) - 1

    def wait_for(self, future: Future[Any]) -> None:
        """Wait, from inside a strand, until another strand has finished its task."""
        self._waiting.append((self._strands.index(cast("greenlet", getcurrent())), future))
        self._switch_out()

    def kill(self) -> None:
        """End it without another call."""
        self._dead = True
        for strand in self._strands:
            strand.throw()

    def _main(self) -> None:
        try:
            answer = self._program(self, Context(self))
        except Exception as error:
            self.end(error=f"{type(error).__name__}: {error}")
            return
        self.end(tuple(failure["itemIdentifier"] for failure in answer["batchItemFailures"]))

    def _switch_out(self) -> Any:
        if self._hub is None:
            raise RuntimeError("a call outside of the process")
        seen = self._hub.switch()
        if self._dead:
            raise GreenletExit
        return seen

    def _run(self) -> None:
        self._hub = cast("greenlet", getcurrent())
        Process.running = self
        while self._ready:
            strand, values = self._ready.pop(0)
            self._strands[strand].parent = self._hub
            self._strands[strand].switch(*values)
            done = [waiting for waiting in self._waiting if waiting[1].done()]
            for waiting in done:
                self._waiting.remove(waiting)
                self._ready.append((waiting[0], (None,)))
        Process.running = None


class StrandExecutor(Executor):
    """Threads for a process: each task is a strand, whose calls the explorer interleaves with the others'."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; its future's `result` waits in the explorer's time."""
        future = _StrandFuture(self._process)

        def body() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self._process.start_strand(body)
        return future


class _StrandFuture(Future[Any]):
    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    # Python's own would block the only thread there is.
    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self._process.wait_for(self)
        return super().result(0)


@dataclass(slots=True)
class Node:
    """A history of one invocation: what it has seen, and what it does then."""

    parent: int
    strand: int
    observation: int
    clock: int
    depth: int
    pending: tuple[tuple[int, int], ...]
    outcome: Outcome | None


class Interner:
    """Texts as small numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Behaviour:
    """Everything that is known of one kind of invocation: a tree of histories, grown by running the code."""

    KEPT_ALIVE = 500

    def __init__(self, program: Program, requests: Interner, observations: Interner) -> None:
        self.nodes: list[Node] = []
        self.executions = 0
        self._program = program
        self._requests = requests
        self._observations = observations
        self._children: dict[tuple[int, int, int, int], int] = {}
        self._alive: OrderedDict[int, Process] = OrderedDict()

    def start(self, clock: int) -> int:
        """The history of an invocation at `clock` that has seen nothing yet."""
        return self._child((-1, 0, -1, clock))

    def advance(self, node: int, strand: int, observation: int, clock: int) -> int:
        """The history after `node` in which `strand` saw `observation` at `clock`."""
        return self._child((node, strand, observation, clock))

    def steps(self, node: int) -> list[tuple[int, int, int]]:
        """(strand, observation, clock) of a history, from its first; the start is (0, -1, clock)."""
        steps = []
        while node >= 0:
            known = self.nodes[node]
            steps.append((known.strand, known.observation, known.clock))
            node = known.parent
        return steps[::-1]

    def _child(self, step: tuple[int, int, int, int]) -> int:
        child = self._children.get(step)
        if child is None:
            child = self._children[step] = self._run(*step)
        return child

    def _run(self, parent: int, strand: int, observation: int, clock: int) -> int:
        process = self._alive.pop(parent, None) if parent >= 0 else Process(self._program, clock)
        if parent < 0:
            self.executions += 1
        elif process is None:
            self.executions += 1
            ((_, _, started), *steps) = self.steps(parent)
            process = Process(self._program, started)
            for step in steps:
                process.answer(step[0], self._observations.texts[step[1]], step[2])
        if process is None:
            raise RuntimeError("no process")
        if parent >= 0:
            process.answer(strand, self._observations.texts[observation], clock)
        depth = self.nodes[parent].depth + 1 if parent >= 0 else 0
        outcome = process.outcome
        if outcome is None and depth > MAXIMUM_CALLS:
            outcome = process.end(error="endless")
            process.kill()
        pending = (
            ()
            if outcome
            else tuple((number, self._requests(request.text)) for number, request in sorted(process.pending.items()))
        )
        self.nodes.append(Node(parent, strand, observation, clock, depth, pending, outcome))
        if outcome is None:
            self._alive[len(self.nodes) - 1] = process
            if len(self._alive) > self.KEPT_ALIVE:
                self._alive.popitem(last=False)[1].kill()
        return len(self.nodes) - 1
