"""Run searches, and print the laws that they find broken: `python -m lab.mutants.search LAW SEARCH ...`."""

import sys
from collections.abc import Callable, Iterable
from functools import partial

from demo.declared import CONSUMER
from lab.explore.budgets import GROUPS_SHORT, SHORT
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.sends.exploration import IN_ORDER, explored, many_explored
from lab.mutants.groups import DERIVED, differing
from lab.simulation.counterexample import from_json
from lab.simulation.run import FOLDER, points, run
from lab.simulation.world.simulation import Plan
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.handlers.verdict import Result

SEEDS = 200
"""The seeds that are searched for a law when the named one does not break it, because a change of the code moves them."""
HISTORIES = 2000
"""The faulty histories in which the audit's quick look is compared with the laws."""
QUICK_LOOK = "quick-look"
"""Named in place of a law: the quick look takes a subject for clean, and the laws do not."""
SENDS: dict[str, Callable[[], Result]] = {"explore a send and its relay": explored, "explore a group of sends": partial(many_explored, IN_ORDER)}


def laws_broken(search: str, law: str) -> Iterable[str]:
    """Return the laws that a search finds broken; see `Edit`. It ends with the first seed that breaks `law`."""
    kind, _, where = search.partition(" ")
    if kind in ("judge", "derive"):
        consumer, seeds = DERIVED if kind == "derive" else CONSUMER, range(int(where), int(where) + HISTORIES)
        return {QUICK_LOOK} if any(differing(seed, consumer) for seed in seeds) else ()
    if search in SENDS:
        return {"I13"} if SENDS[search]().kind == "breaks" else ()
    if kind == "explore":
        subject, budgets = (OURS_IN_GROUPS, GROUPS_SHORT) if "group" in where else (OURS, SHORT)
        return Explorer(next(one for one in budgets if one.name == where), subject).run().laws_broken
    if kind == "replay":
        name, plan = from_json((FOLDER / f"{where}.json").read_text())
        plans = [plan]
    else:
        name, _, seed = where.partition(" ")
        plans = [Plan(int(seed)), *(Plan(seed) for seed in range(SEEDS if law else 0))]
    found: set[str] = set()
    with points() as modules:
        for plan in plans:
            found |= {breach.law for breach in run(name, plan, modules).breaches}
            if law in found:
                break
    return found


if __name__ == "__main__":
    wanted, *searches = sys.argv[1:]
    sys.stdout.write(" ".join(law for search in searches for law in laws_broken(search, wanted)))
