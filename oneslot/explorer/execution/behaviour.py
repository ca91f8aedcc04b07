"""Remembered behaviour: the code under test runs only for new histories."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from oneslot.explorer.execution.process import Outcome, Process, Program

MAXIMUM_CALLS = 60
"""The most API calls of an invocation; one that makes more counts as endless."""


@dataclass(slots=True)
class Node:
    """A history of one invocation: its last observation, and the calls or the outcome that follow."""

    parent: int
    strand: int
    observation: int
    clock: int
    depth: int
    pending: tuple[tuple[int, int], ...]
    outcome: Outcome | None


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

    def __init__(self, program: Program, requests: Interner, observations: Interner) -> None:
        self.nodes: list[Node] = []
        self.executions = 0
        self._program = program
        self._requests = requests
        self._observations = observations
        self._children: dict[tuple[int, int, int, int], int] = {}
        self._alive: OrderedDict[int, Process] = OrderedDict()

    def start(self, clock: int) -> int:
        """Return the history of an invocation that starts at `clock` (epoch ms)."""
        return self._child((-1, 0, -1, clock))

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
