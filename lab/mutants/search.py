"""Run searches, and print the laws that they find broken: `python -m lab.mutants.search SEARCH ...`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from lab.explore.budgets import GROUPS_SHORT, QUICK
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.simulation.counterexample import from_json
from lab.simulation.run import FOLDER, points, run
from lab.simulation.world.simulation import Plan
from oneslot.explorer.explorer import explore


def laws_broken(search: str) -> Iterable[str]:
    """Return the laws that a search finds broken; see `Edit`."""
    kind, _, where = search.partition(" ")
    if kind == "explore":
        subject, budgets = (OURS_IN_GROUPS, GROUPS_SHORT) if "group" in where else (OURS, QUICK)
        return explore(next(scenario for scenario in budgets if scenario.name == where), subject).laws_broken
    if kind == "replay":
        name, plan = from_json((FOLDER / f"{where}.json").read_text())
    else:
        name, _, seed = where.partition(" ")
        plan = Plan(int(seed))
    with points() as modules:
        return {breach.law for breach in run(name, plan, modules).breaches}


if __name__ == "__main__":
    sys.stdout.write(" ".join(law for search in sys.argv[1:] for law in laws_broken(search)))
