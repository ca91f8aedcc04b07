"""Make a counterexample small: fewer faults, fewer requests and processes, no preemption, as long as the same law breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lab.simulation.run import Run, run
from lab.simulation.world.faults import Fault
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan

TRIES = 2_000
"""The most runs for one counterexample."""

OTHER_SEEDS = 8
"""Seeds that are tried for a smaller plan: without a fault the threads take other turns, and may miss each other."""


def shrink(found: Run, modules: Instrumented) -> Run:
    """Return the smallest run that was found within `TRIES`, and that breaks one of the same laws."""
    laws = {breach.law for breach in found.breaches}
    left = TRIES

    def breaks(plan: Plan, seeds: int) -> Run | None:
        nonlocal left
        for seed in range(plan.seed, plan.seed + seeds):
            if left <= 0:
                return None
            left -= 1
            tried = run(found.scenario, replace(plan, seed=seed), modules)
            if laws & {breach.law for breach in tried.breaches}:
                return tried
        return None

    best = found
    for seeds in (1, OTHER_SEEDS):
        improved = True
        while improved and left > 0:
            improved = False
            for smaller in _smaller(best.plan):
                if (tried := breaks(smaller, seeds)) is not None:
                    best, improved = tried, True
                    break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield smaller plans, the boldest first."""
    faults = tuple(plan.faults or ())
    for part in _without_parts(faults):
        yield replace(plan, faults=part)
    if plan.points:
        yield replace(plan, points=False, faults=tuple(each for each in faults if each.place != "statement"))
    for name, value in plan.numbers.items():
        nearer = value - 1 if value > 0 else value + 1
        for lower in dict.fromkeys((0, int(value / 2), nearer)):
            if abs(lower) < abs(value):
                yield replace(plan, numbers={**plan.numbers, name: lower})


def _without_parts(faults: Sequence[Fault]) -> Iterator[tuple[Fault, ...]]:
    """Yield the faults without a half of them, a quarter, ... and without each one."""
    size = len(faults)
    while size:
        size = size // 2 if size > 1 else 0
        for start in range(0, len(faults), max(1, size)):
            yield (*faults[:start], *faults[start + max(1, size) :])
        if size <= 1:
            return
