"""Many seeds of every scenario, on every core, and the figures that they add up to."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import Any

from lab.simulation.run import POINTS, run
from lab.simulation.world.faults import CRASH, PAUSE, SUSPEND, choices, reached_name
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan

TOGETHER = 25
"""Seeds that one process runs before it reports."""


@dataclass
class Figures:
    """What the runs of one scenario add up to.

    Attributes:
        counts: seeds, steps, faults, virtual and processor time (ms).
        reached: what happened, by name.
        broken: the seed and the laws of each run that breaks one.
    """

    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Add the figures of other runs."""
        self.counts.update(other.counts)
        self.reached.update(other.reached)
        self.broken += other.broken

    @property
    def document(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "seeds": self.counts["seeds"],
            "steps": self.counts["steps"],
            "virtual_hours": round(self.counts["virtual ms"] / 3_600_000, 2),
            "cpu_seconds": round(self.counts["cpu ms"] / 1000, 1),
            "faults": self.counts["faults"],
            "violating": len(self.broken),
        }


def simulate(
    names: Sequence[str],
    *,
    first: int,
    seeds: int | None,
    seconds: float | None,
    each: Callable[[Figures], None] = lambda newest: None,
) -> dict[str, Figures]:
    """Run each scenario under this many seeds from `first` on, or all of them in turn for this many seconds.

    `each` gets the figures of the newest runs of a scenario.
    """
    figures = {name: Figures() for name in names}
    stop = math.inf if seeds is None else first + seeds
    end = math.inf if seconds is None else time.monotonic() + seconds
    with ProcessPoolExecutor() as executor:
        while first < stop and time.monotonic() < end:
            size = int(min(TOGETHER, stop - first))
            for name, newest in zip(names, executor.map(run_chunk, names, repeat(first), repeat(size)), strict=True):
                figures[name].add(newest)
                each(newest)
            first += size
    return figures


@cache
def _modules() -> Instrumented:
    """Return the modules with their points, which they have for the life of this process."""
    return Instrumented(import_module(name) for name in POINTS)


def run_chunk(name: str, first: int, seeds: int) -> Figures:
    """Run a scenario under these seeds, in a process of the pool."""
    figures, modules = Figures(), _modules()
    started = time.process_time()
    for seed in range(first, first + seeds):
        done = run(name, Plan(seed), modules)
        virtual_ms = round(done.seconds * 1000)
        figures.counts.update(
            seeds=1, steps=done.steps, faults=len(done.plan.faults or ()), **{"virtual ms": virtual_ms}
        )
        figures.reached.update(done.reached)
        if done.breaches:
            figures.broken.append((seed, tuple(sorted({breach.law for breach in done.breaches}))))
    figures.counts["cpu ms"] = round(1000 * (time.process_time() - started))
    return figures


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of all scenarios' figures."""
    result = Figures()
    for each in figures:
        result.add(each)
    return result


def document(figures: Mapping[str, Figures]) -> dict[str, Any]:
    """Return all figures as JSON."""
    return {
        "scenarios": {name: each.document for name, each in figures.items()},
        "total": total(figures.values()).document,
    }


CALLS: Mapping[str, tuple[str, ...]] = {
    "sqs": (
        "receive_message",
        "delete_message_batch",
        "change_message_visibility_batch",
        "change_message_visibility",
        "send_message",
        "send_message_batch",
    ),
    "dynamodb": ("update_item", "get_item", "query", "transact_write_items"),
    "lambda": ("start_environment",),
}
"""The calls at which every fault must happen."""

OUTCOMES = ("booked", "waitlist", "cancelled", "refused", "duplicate", "quarantined", "busy", "fenced", "failed")
"""Outcomes of a delivery that must occur."""

EVENTS = (
    *(f"function error: {kind}" for kind in ("init", "exception", "timeout", "crash", "answer")),
    *("a batch is throttled", "a row expires"),
)
"""What must happen to a mapping, to its function and to the ledger."""

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "transact_write_items": {"TransactItems": [{}]},
    "receive_message": {"WaitTimeSeconds": 1},
}


def must_be_reached() -> Iterator[str]:
    """Yield the name of everything that must happen in a long simulation."""
    for service, operations in CALLS.items():
        for operation in operations:
            for choice in choices(service, operation, _PARAMETERS.get(operation, {})):
                yield reached_name(choice.name, operation)
    for name in (CRASH, PAUSE, SUSPEND):
        yield reached_name(name, "a statement")
    for outcome in OUTCOMES:
        yield f"outcome: {outcome}"
    yield from EVENTS


def never_reached(reached: Collection[str]) -> list[str]:
    """Return what must happen sometimes, and did not."""
    return [name for name in must_be_reached() if name not in reached]
