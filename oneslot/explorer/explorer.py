"""Explore every schedule within a budget: breadth first over states, with schedules counted as paths.

A schedule is a path from the start to a state without a next step: an order of calls, deliveries and expiries, with the
faults in it. Schedules meet again in few states, so all paths can be counted, though they are far too many to walk one by
one. States that differ only by the names of identical deliveries are one.
"""

import gc
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.execution.process import capture_logs
from oneslot.explorer.laws import law_name
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.state import ExploredState
from oneslot.explorer.system import System

ENTERED, COUNTED = 1, 2


@dataclass(frozen=True)
class BrokenLaws:
    """Broken laws, and the shortest path to them: its states, each in its canonical form.

    `where` is "step" (the last step of the path broke them), "state" (its last state) or "aftermath" (what followed).
    """

    laws: tuple[str, ...]
    path: tuple[ExploredState, ...]
    where: str


@dataclass(frozen=True)
class ExplorationFigures:
    """The figures of an exploration.

    `schedules` and `violating` count paths, and `executions` runs of the code under test from its start. `states` and
    `steps` count what was visited after pruning, and `calls` the distinct API calls that the services performed.
    """

    subject: str
    scenario: str
    size: str
    schedules: int
    violating: int
    states: int
    steps: int
    end_states: int
    executions: int
    calls: int
    seconds: float
    complete: bool
    laws_broken: tuple[str, ...] = ()
    breaches: tuple[BrokenLaws, ...] = field(default=(), repr=False)


class Explorer:
    """One exploration and its graph. `before`: see `System`."""

    def __init__(self, scenario: Scenario, subject: ExploredSubject, before: System | None = None) -> None:
        self.system = System(scenario, subject, before)
        self.states: list[ExploredState] = []
        self.ends: set[int] = set()
        self.breaches: list[BrokenLaws] = []
        self._aftermath = Aftermath(self.system)
        self._numbers: dict[ExploredState, int] = {}
        self._parents = array("l")
        self._targets = array("l")
        self._offsets = array("l", [0])
        self._broken_states: dict[int, tuple[str, ...]] = {}
        self._broken_steps: set[int] = set()
        self._laws: dict[str, None] = {}

    @capture_logs()
    def run(
        self,
        stop_at_first: bool = False,
        progress: Callable[[int, int], None] = lambda states, waiting: None,
        over: Callable[[], bool] = lambda: False,
    ) -> ExplorationFigures:
        """Explore breadth first, so that the first breach has a shortest path. `over` ends it before its end.

        `progress` receives the states expanded and those that wait.
        """
        started = time.perf_counter()
        system = self.system
        # Millions of small tuples without cycles: collecting garbage would cost more than all the rest.
        collecting = gc.isenabled()
        gc.disable()
        self._number(system.canonical(system.start), -1)
        current = 0
        while current < len(self.states) and not (stop_at_first and self.breaches):
            self._expand(current)
            current += 1
            if current % 2_000 == 0:
                progress(current, len(self.states) - current)
            if over():  # after each: one state may need a hundred runs of slow code
                break
        complete = current == len(self.states)
        schedules, violating = self._count() if complete else (0, 0)
        if collecting:
            gc.enable()
        return ExplorationFigures(
            subject=system.subject.name,
            scenario=system.scenario.name,
            size=system.scenario.size,
            schedules=schedules,
            violating=violating,
            states=len(self.states),
            steps=len(self._targets),
            end_states=len(self.ends),
            executions=system.executions,
            calls=system.calls_made,
            seconds=time.perf_counter() - started,
            complete=complete,
            laws_broken=tuple(sorted(self._laws)),
            breaches=tuple(self.breaches),
        )

    def _expand(self, current: int) -> None:
        system = self.system
        state = self.states[current]
        moved = False
        for step in system.steps(state):
            moved = True
            number = self._number(system.canonical(step.state), current)
            if step.breaches:
                self._broken_steps.add(len(self._targets))
                self._note(step.breaches, current, "step", number)
            self._targets.append(number)
        self._offsets.append(len(self._targets))
        laws: tuple[str, ...] = ()
        if not moved or system.scenario.may_end(state.codes, bool(state.network)):
            laws = self._aftermath(state)
        if not moved:
            self.ends.add(current)
            if system.scenario.ends_by_itself and state.acknowledged != (1 << len(system.scenario.messages)) - 1:
                laws = (*laws, "E1: one transient fault of a write, and the delivery did not finish")
        self._note_state(laws, current, "aftermath")

    def _number(self, state: ExploredState, parent: int) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
            self._parents.append(parent)
            system = self.system
            laws = system.in_state(state.world, state.acknowledged, system.scenario.clock(state.expiries))
            self._note_state(laws, number, "state")
        return number

    def _note_state(self, laws: tuple[str, ...], at: int, where: str) -> None:
        if laws:
            self._broken_states[at] = laws
            self._note(laws, at, where)

    def _note(self, laws: tuple[str, ...], at: int, where: str, then: int = -1) -> None:
        new = {law_name(law) for law in laws} - set(self._laws)
        self._laws.update(dict.fromkeys(sorted(new)))
        if new:  # the first breach of each law has a shortest path; later ones are only counted
            path = [] if then < 0 else [self.states[then]]
            while at >= 0:
                path.append(self.states[at])
                at = self._parents[at]
            self.breaches.append(BrokenLaws(laws, tuple(reversed(path)), where))

    def _count(self) -> tuple[int, int]:
        """Count the paths from the start to an end, and those that break a law, backwards from the ends."""
        targets, offsets = self._targets, self._offsets
        paths: list[int] = [0] * len(self.states)
        broken: list[int] = [0] * len(self.states)
        done = bytearray(len(self.states))
        stack = [0]
        while stack:
            one = stack[-1]
            if done[one] == COUNTED:
                stack.pop()
                continue
            span = range(offsets[one], offsets[one + 1])
            if not done[one]:
                done[one] = ENTERED
                stack.extend(targets[edge] for edge in span if not done[targets[edge]])
                continue
            stack.pop()
            done[one] = COUNTED
            if not span:
                paths[one], broken[one] = 1, int(one in self._broken_states)
                continue
            paths[one] = sum(paths[targets[edge]] for edge in span)
            if one in self._broken_states:
                broken[one] = paths[one]
            elif self._broken_steps:
                broken[one] = sum((paths if edge in self._broken_steps else broken)[targets[edge]] for edge in span)
            else:
                broken[one] = sum(broken[targets[edge]] for edge in span)
        return paths[0], broken[0]
