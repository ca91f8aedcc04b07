"""Many runs of every scenario, on every core, and the figures that they add up to."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

from lab.simulation.run import POINTS, Run, run_seeds
from lab.simulation.world.points import Instrumented

_modules: Instrumented | None = None

TOGETHER = 25
"""Seeds that one process runs before it reports."""


@dataclass
class Figures:
    """What the runs of one scenario add up to. `broken` are the runs that break a law, without their events."""

    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Add one run."""
        self.seeds += 1
        self.steps += run.steps
        self.virtual_seconds += run.seconds
        self.faults.update(fault.name for fault in run.plan.faults or ())
        self.reached.update(run.reached)
        if run.breaches:
            self.broken.append((run.plan.seed, tuple(sorted({breach.law for breach in run.breaches}))))

    def merge(self, other: Figures) -> None:
        """Add the figures of other runs."""
        self.seeds += other.seeds
        self.steps += other.steps
        self.virtual_seconds += other.virtual_seconds
        self.cpu_seconds += other.cpu_seconds
        self.faults.update(other.faults)
        self.reached.update(other.reached)
        self.broken += other.broken

    @property
    def document(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "seeds": self.seeds,
            "steps": self.steps,
            "virtual_hours": round(self.virtual_seconds / 3600, 2),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "faults": sum(self.faults.values()),
            "violating": len(self.broken),
        }


def simulate(
    names: Sequence[str],
    *,
    first: int,
    seeds: int | None,
    seconds: float | None,
    each: Callable[[str, Figures], None],
    processes: int | None = None,
) -> dict[str, Figures]:
    """Run each scenario under this many seeds from `first` on, or all of them in turn for this many seconds.

    `each` gets a scenario's name and the figures of its newest runs.
    """
    figures = {name: Figures() for name in names}
    end = None if seconds is None else time.monotonic() + seconds
    processes = processes or os.cpu_count() or 1
    chunks = _chunks(names, first, seeds)
    with ProcessPoolExecutor(processes, initializer=_instrument) as executor:
        running: dict[Future[Figures], str] = {}
        over = False
        while not over or running:
            while not over and len(running) < 2 * processes:
                chunk = next(chunks, None)
                if chunk is None or (end is not None and time.monotonic() >= end):
                    over = True
                else:
                    running[executor.submit(run_chunk, *chunk)] = chunk[0]
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(done)
                figures[name].merge(done.result())
                each(name, done.result())
    return figures


def _instrument() -> None:
    """Give the modules their points, for the life of this process."""
    global _modules  # noqa: PLW0603 - one for each process of the pool
    _modules = Instrumented(import_module(name) for name in POINTS)


def run_chunk(name: str, first: int, seeds: int) -> Figures:
    """Run a scenario under these seeds, in a process of the pool."""
    figures = Figures()
    started = time.process_time()
    for run in run_seeds(name, range(first, first + seeds), cast("Instrumented", _modules)):
        figures.add(run)
    figures.cpu_seconds = time.process_time() - started
    return figures


def _chunks(names: Sequence[str], first: int, seeds: int | None) -> Iterator[tuple[str, int, int]]:
    """Yield (scenario, first seed, seeds), the scenarios in turn."""
    start = first
    while seeds is None or start < first + seeds:
        size = TOGETHER if seeds is None else min(TOGETHER, first + seeds - start)
        yield from ((name, start, size) for name in names)
        start += size


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of all scenarios' figures."""
    result = Figures()
    for each in figures:
        result.merge(each)
    return result


def document(figures: Mapping[str, Figures]) -> dict[str, Any]:
    """Return all figures as JSON."""
    return {
        "scenarios": {name: each.document for name, each in figures.items()},
        "total": total(figures.values()).document,
    }
