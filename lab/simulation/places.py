"""Every place of one fault: a run without faults shows the calls and statements, and each gets each of its faults once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from lab.simulation.run import SCENARIOS, Run, run
from lab.simulation.world.faults import APPEND, APPEND_FAULTS, CALL, CRASH, STATEMENT, SUSPEND, Fault, Faults
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan, simulation
from oneslot.explorer.faults import Choice

SECONDS = 45.0
"""The length of each fault that has one: more than a message is hidden for."""


class _Seen(Faults):
    """No faults; notes where there could be one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Fault] = []

    def at_call(
        self, process: str, number: int, choices: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, Fault] | None:
        """See `Faults`."""
        self.calls += [Fault(process, CALL, number, choice.name, SECONDS) for choice in choices()]
        return None

    def at_append(self, process: str, number: int) -> Fault | None:
        """See `Faults`."""
        self.calls += [Fault(process, APPEND, number, name) for name in APPEND_FAULTS]
        return None

    def next_statement(self, process: str, after: int) -> Fault | None:
        """See `Faults`."""
        return None


def places(name: str, plan: Plan, modules: Instrumented, *, every: int = 1) -> list[Fault]:
    """Return each fault that can happen in this run, at calls and at each `every`th statement."""
    with simulation(replace(plan, faults=()), modules.set_point) as world:
        world.faults = seen = _Seen()
        SCENARIOS[name](world)
        statements = {process.name: process.counted for process in world.kernel.processes}
    found = list(seen.calls)
    for process, count in statements.items():
        for number in range(1, count + 1, every):
            found += [Fault(process, STATEMENT, number, kind, SECONDS) for kind in (CRASH, SUSPEND)]
    return found


def run_each(name: str, plan: Plan, every: Iterable[Fault], modules: Instrumented) -> Iterator[Run]:
    """Run a scenario once with each fault alone."""
    for fault in every:
        yield run(name, replace(plan, faults=(fault,)), modules)
