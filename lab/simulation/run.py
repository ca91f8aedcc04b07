"""Run scenarios under seeds: the modules that get points, one run, and many."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from lab.simulation.scenarios import mapping, renewing, repair, sending, valkey, workers
from lab.simulation.world.journal import Breach, Event
from lab.simulation.world.points import Instrumented, instrumented
from lab.simulation.world.simulation import Plan, Simulation, simulation

Scenario = Callable[[Simulation], None]

FOLDER = Path(__file__).with_name("regressions")
"""Each run that broke a law before its fix."""

SCENARIOS: Mapping[str, Scenario] = {
    "workers": workers.standard,
    "workers-fifo": workers.fifo,
    "mapping": mapping.standard,
    "mapping-fifo": mapping.fifo,
    "poison": workers.poison,
    "triplets": workers.triplets,
    "outages": workers.outages,
    "clocks": workers.clocks,
    "late-commits": workers.late,
    "deployments": workers.deployments,
    "hanging": workers.hanging,
    "taken-over": workers.taken_over,
    "long-work": workers.long_work,
    "long-work-mild": workers.mild,
    "valkey": valkey.failover,
    "renewing": renewing.renewing,
    "renewing-clock-set": renewing.clock_set,
    "send": sending.sender,
    "producers": sending.producers,
    "redrives": repair.redrives,
    "redrives-fifo": repair.redrives_fifo,
    "operators": repair.operators,
    "mapping-large": mapping.large,
    "mapping-broken-release": mapping.broken_release,
    "mapping-throttled": mapping.throttled,
    "end-of-retention": mapping.end_of_retention,
}
"""Every scenario by its name."""

_MAPPING = ("event_source_mapping", "handler_pool", "poller")

POINTS = (
    *(f"oneslot.worker.{name}" for name in ("acknowledgement", "job", "log", "pool", "visibility", "worker")),
    *(f"oneslot.local.mapping.{name}" for name in _MAPPING),
    *(f"oneslot.operator.repair.{name}" for name in ("forecast", "ledger_row", "redrive")),
    "oneslot.operator.evidence.operator_log",
    *(f"oneslot.runtime.consumer.{name}" for name in ("consumer", "group_commit", "queues")),
    *(f"oneslot.runtime.{name}" for name in ("attempt", "surroundings", "stores.valkey")),
    *(f"oneslot.runtime.sqs.{name}" for name in ("batches", "dead_letters", "producer")),
    *(f"oneslot.operator.sending.{name}" for name in ("archive", "sender")),
)
"""The modules with a point before each statement."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run. `numbers` and `faults` of the plan are those that happened."""

    scenario: str
    plan: Plan
    breaches: tuple[Breach, ...]
    events: tuple[Event, ...]
    reached: Mapping[str, int]
    steps: int
    seconds: float

    @property
    def trace(self) -> str:
        """Return a digest of everything that happened, in its order."""
        digest = hashlib.sha256()
        for event in self.events:
            digest.update(repr((event.at, event.process, event.what, event.details)).encode())
        return digest.hexdigest()


def points() -> AbstractContextManager[Instrumented]:
    """Give every module of `POINTS` its points within a `with` block."""
    return instrumented(map(import_module, POINTS))


def run(name: str, plan: Plan, modules: Instrumented) -> Run:
    """Run a scenario once."""
    with simulation(plan, modules.set_point) as world:
        SCENARIOS[name](world)
        plan = Plan(plan.seed, dict(world.numbers), tuple(world.faults.met), plan.points)
        return Run(
            name,
            plan,
            tuple(world.journal.breaches),
            tuple(world.journal.events),
            world.journal.reached,
            world.kernel.turns + sum(process.statements for process in world.kernel.processes),
            world.kernel.now / 1_000_000,
        )
