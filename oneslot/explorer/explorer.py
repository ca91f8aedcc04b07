"""Every schedule within a budget: breadth first over states, identical deliveries exchanged, schedules counted as paths.

A schedule is a path from the start to a state in which nobody has anything left to do. The states between are few, because
schedules meet again; so all paths can be counted although nobody could walk them one by one. `plain.py` does walk them, for
small budgets, without any of this, and comes to the same counts.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.hearing import hearing
from oneslot.explorer.scenario import Scenario, Subject
from oneslot.explorer.state import State, System
from oneslot.explorer.world import Services, port_services
from verification.scenarios.laws import law_name

ENTERED, COUNTED = 1, 2


@dataclass(frozen=True)
class Breach:
    """Laws that do not hold, and the shortest way there: the states of a path, each in its canonical form.

    `where` is "step" (the last step of the path broke them), "state" (its last state) or "aftermath" (what came after).
    """

    laws: tuple[str, ...]
    path: tuple[State, ...]
    where: str


@dataclass(frozen=True)
class Exploration:
    """What an exploration came to.

    `schedules` and `violating` count paths; `executions` runs of the code under test from its start; `states` and `steps`
    what was visited after pruning; `calls` distinct API calls that the services performed, each by its sender.
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
    breaches: tuple[Breach, ...] = field(default=(), repr=False)


def explore(
    scenario: Scenario,
    subject: Subject,
    *,
    services: Services = port_services,
    stop_at_first: bool = False,
    progress: Callable[[int, int], None] = lambda states, waiting: None,
) -> Exploration:
    """Explore to the end, or to the first breach; `progress` is told the states seen and those still to be expanded."""
    return Explorer(scenario, subject, services).run(stop_at_first, progress)


class Explorer:
    """One exploration, and the graph that it leaves."""

    def __init__(self, scenario: Scenario, subject: Subject, services: Services = port_services) -> None:
        self.system = System(scenario, subject, services)
        self.states: list[State] = []
        self.ends: set[int] = set()
        self.breaches: list[Breach] = []
        self._aftermath = Aftermath(self.system)
        self._numbers: dict[State, int] = {}
        self._parents = array("l")
        self._targets = array("l")
        self._offsets = array("l", [0])
        self._broken_states: dict[int, tuple[str, ...]] = {}
        self._broken_steps: set[int] = set()
        self._laws: dict[str, None] = {}

    @hearing()
    def run(self, stop_at_first: bool, progress: Callable[[int, int], None]) -> Exploration:
        """Breadth first, so that the first breach has a shortest path."""
        started = time.perf_counter()
        system = self.system
        # Millions of small tuples, and no cycles among them: looking for some would cost more than all the rest.
        collecting = gc.isenabled()
        gc.disable()
        self._number(system.canonical(system.start), -1)
        current = 0
        while current < len(self.states) and not (stop_at_first and self.breaches):
            self._expand(current)
            current += 1
            if current % 2_000 == 0:
                progress(current, len(self.states) - current)
        complete = current == len(self.states)
        schedules, violating = self._count() if complete else (0, 0)
        if collecting:
            gc.enable()
        return Exploration(
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

    def edges(self) -> dict[State, list[State]]:
        """The graph: each state's successors, one for each step."""
        return {
            state: [self.states[target] for target in self._targets[self._offsets[one] : self._offsets[one + 1]]]
            for one, state in enumerate(self.states)
        }

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
        if not moved:
            self.ends.add(current)
            laws = self._aftermath(state)
            if system.scenario.ends_by_itself and state.acknowledged != (1 << len(system.scenario.messages)) - 1:
                laws = (*laws, "E1: one transient fault of a write, and the delivery did not finish")
            if laws:
                self._broken_states[current] = laws
                self._note(laws, current, "aftermath")

    def _number(self, state: State, parent: int) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
            self._parents.append(parent)
            system = self.system
            laws = system.in_state(state.world, state.acknowledged, system.scenario.clock(state.expiries))
            if laws:
                self._broken_states[number] = laws
                self._note(laws, number, "state")
        return number

    def _note(self, laws: tuple[str, ...], at: int, where: str, then: int = -1) -> None:
        new = {law_name(law) for law in laws} - set(self._laws)
        self._laws.update(dict.fromkeys(sorted(new)))
        if new:  # the first breach of each law has a shortest path; the others are only counted
            path = [] if then < 0 else [self.states[then]]
            while at >= 0:
                path.append(self.states[at])
                at = self._parents[at]
            self.breaches.append(Breach(laws, tuple(reversed(path)), where))

    def _count(self) -> tuple[int, int]:
        """Paths from the start to an end, and those on which a law is broken: from the ends backwards."""
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
