"""Remembered behaviour: the code under test runs only for new histories."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oneslot.explorer.execution.process import HandlerEnd, Program, RunningInvocation
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall

COLD = 0
"""The environment of an invocation that starts in a fresh one; the others are numbered from 1."""

KEEP_REMEDY = "Keep it in a table, a module or /tmp."
NOT_REPEATED = (
    "The code does other things when it is run again with equal answers: {difference}. It reads or keeps something outside "
    f"its modules, which the explorer does not control. {KEEP_REMEDY}"
)
"""The refusal of code whose history cannot be run again."""

MAXIMUM_CALLS = 60
"""The most API calls of an invocation; one that makes more counts as endless."""


@dataclass(slots=True)
class Node:
    """A history of one invocation: its last observation, and the calls or the outcome that follow.

    Without a parent, `strand` is the environment that the invocation starts in.
    """

    parent: int
    strand: int
    observation: int
    clock: int
    depth: int
    pending: tuple[tuple[int, int], ...]
    outcome: HandlerEnd | None


class Interner:
    """Texts, each under a small number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the number of a text."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Behaviour:
    """The known histories of one kind of invocation: a tree, grown by running the code."""

    KEPT_ALIVE = 500

    def __init__(
        self,
        program: Program,
        requests: Interner,
        observations: Interner,
        process: type[RunningInvocation] = RunningInvocation,
        environments: "Sequence[tuple[Behaviour, int]]" = (),
    ) -> None:
        """`environments`: for each the history of the invocation that left it; they may become more."""
        self.nodes: list[Node] = []
        self.executions = 0
        self._program = program
        self._process = process
        self._requests = requests
        self._observations = observations
        self._children: dict[tuple[int, ...], int] = {}
        self._remembered: dict[tuple[int, tuple[tuple[int, int], ...], HandlerEnd | None, str | None], int] = {}
        self._environments = environments
        self._alive: OrderedDict[int, RunningInvocation] = OrderedDict()

    def start(self, clock: int, environment: int = COLD) -> int:
        """Return the history of an invocation that starts at `clock` (epoch ms)."""
        return self._child((-1, environment, -1, clock))

    def advance(self, node: int, strand: int, observation: int, clock: int) -> int:
        """Return the history after `node` in which `strand` saw `observation` at `clock` (epoch ms)."""
        return self._child((node, strand, observation, clock))

    def steps(self, node: int) -> list[tuple[int, int, int]]:
        """Return (strand, observation, clock) of each step of a history; the start is (0, -1, clock)."""
        steps = []
        while node >= 0:
            known = self.nodes[node]
            steps.append((known.strand, known.observation, known.clock))
            node = known.parent
        return steps[::-1]

    def _child(self, step: tuple[int, int, int, int]) -> int:
        child = self._children.get(step, self._children.get(step[:3]))
        if child is None:
            child = self._run(*step)
        self._children[step] = child
        return child

    def _started(self, environment: int, clock: int) -> RunningInvocation:
        self.executions += 1
        if environment == COLD:
            return self._process(self._program, clock)
        behaviour, node = self._environments[environment - 1]
        return self._process(self._program, clock, behaviour._replayed(node))

    def _replayed(self, node: int) -> RunningInvocation:
        """Return the process after a history, by running the code again from its start."""
        ((environment, _, started), *steps) = self.steps(node)
        process = self._started(environment, started)
        for strand, observation, clock in steps:
            if strand not in process.pending:
                raise NotExplorable(NOT_REPEATED.format(difference=f"{_next_of(process.pending.values())} too early"))
            process.answer(strand, self._observations.texts[observation], clock)
        pending, known = self._pending(process), self.nodes[node].pending
        if pending != known:
            first, later = (
                _next_of(ApiCall(self._requests.texts[one]) for _, one in some) for some in (known, pending)
            )
            raise NotExplorable(NOT_REPEATED.format(difference=f"first {first}, and later {later}"))
        return process

    def _pending(self, process: RunningInvocation) -> tuple[tuple[int, int], ...]:
        if process.outcome:
            return ()
        return tuple((number, self._requests(request.text)) for number, request in sorted(process.pending.items()))

    def _run(self, parent: int, strand: int, observation: int, clock: int) -> int:
        if parent < 0:
            process = self._started(strand, clock)
        else:
            process = self._alive.pop(parent) if parent in self._alive else self._replayed(parent)
            process.answer(strand, self._observations.texts[observation], clock)
        depth = self.nodes[parent].depth + 1 if parent >= 0 else 0
        outcome = process.outcome
        if outcome is None and depth > MAXIMUM_CALLS:
            outcome = process.end(error="endless")
            process.kill()
        pending = () if outcome else self._pending(process)
        memory = process.memory()
        remembered = (depth, pending, outcome, memory)
        node = len(self.nodes) if memory is None else self._remembered.setdefault(remembered, len(self.nodes))
        if parent >= 0 and not process.has_read_clock:  # at another time it does the same
            self._children[parent, strand, observation] = node
        if node < len(self.nodes):
            process.kill()
            return node
        self.nodes.append(Node(parent, strand, observation, clock, depth, pending, outcome))
        if outcome is None:
            self._alive[node] = process
            if len(self._alive) > self.KEPT_ALIVE:
                self._alive.popitem(last=False)[1].kill()
        return node


def _next_of(calls: Iterable[ApiCall]) -> str:
    names = " and ".join(call.parts[0] for call in calls)
    return f"it calls {names}" if names else "it ends"
