"""All explorations: ours and the peers', and their figures as one JSON document."""

import json
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from typing import Any

from lab.explore.budgets import FULL, GROUPS_FULL, GROUPS_SHORT, SHORT
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import COMPARED
from oneslot.explorer.counterexample import Counterexample, counterexample
from oneslot.explorer.explorer import ExplorationFigures, Explorer
from oneslot.explorer.scenario import ExploredSubject, Scenario

SUBJECTS: Mapping[str, ExploredSubject] = {
    subject.name: subject for subject in (OURS, OURS_IN_GROUPS, *(each.subject for each in COMPARED))
}


@dataclass(frozen=True)
class Explored:
    """An exploration's figures, and a shortest path to the first breach of each law."""

    exploration: ExplorationFigures
    counterexamples: tuple[Counterexample, ...]


@dataclass(frozen=True)
class Results:
    """The results of one run. `peers` has a row for each of `COMPARED`. `seconds` are those of the explorations."""

    ours: tuple[Explored, ...]
    peers: tuple[Explored, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether all are complete, ours break no law, and each of `COMPARED` breaks its laws."""
        found = [one.exploration for one in self.peers]
        return (
            bool(self.ours)
            and all(one.exploration.complete for one in (*self.ours, *self.peers))
            and not any(one.exploration.laws_broken for one in self.ours)
            and [set(one.laws_broken) for one in found] == [each.breaks for each in COMPARED]
        )

    @property
    def document(self) -> dict[str, Any]:
        """The results as JSON values."""
        ours = [figures(one.exploration) for one in self.ours]
        return {
            "holds": self.holds,
            "seconds": round(self.seconds, 1),
            "explorations": ours,
            "totals": {
                name: sum(row[name] for row in ours) for name in ("schedules", "executions", "states", "violating")
            },
            "peers": [figures(one.exploration) for one in self.peers],
        }


def figures(exploration: ExplorationFigures) -> dict[str, Any]:
    """Return an exploration as JSON values, without its paths."""
    values = asdict(replace(exploration, breaches=()))
    del values["breaches"]
    return {**values, "seconds": round(exploration.seconds, 1)}


def explore_one(scenario: Scenario, subject: str) -> Explored:
    """Run one exploration to its end. `subject` is a name, because this runs in another process."""
    explorer = Explorer(scenario, SUBJECTS[subject])
    exploration = explorer.run()
    return Explored(exploration, tuple(counterexample(explorer.system, breach) for breach in exploration.breaches))


def explore_all(
    short: bool, on_explored: Callable[[Explored], None]
) -> tuple[tuple[Explored, ...], tuple[Explored, ...]]:
    """Run all explorations, ours and the peers', in a process for each core. `on_explored` gets each as it ends."""
    ours = [(scenario, OURS.name) for scenario in (SHORT if short else FULL)]
    ours += [(scenario, OURS_IN_GROUPS.name) for scenario in (GROUPS_SHORT if short else GROUPS_FULL)]
    peers = [(ONE_REQUEST, each.subject.name) for each in COMPARED]
    tasks: Sequence[tuple[Scenario, str]] = [*ours, *peers]
    # Spawn rather than fork, because a fork of a process with threads can deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(multiprocessing.cpu_count(), context) as pool:
        # The longest first, so that none runs alone at the end.
        order = sorted(range(len(tasks)), key=lambda position: -_weight(tasks[position][0]))
        futures = {position: pool.submit(explore_one, *tasks[position]) for position in order}
        for future in as_completed(futures.values()):
            on_explored(future.result())
    in_order = tuple(futures[position].result() for position in range(len(tasks)))
    return in_order[: len(ours)], in_order[len(ours) :]


def to_json(results: Results) -> str:
    """Return the text of `explored.json`."""
    return json.dumps(results.document, indent=1) + "\n"


def _weight(scenario: Scenario) -> int:
    records = sum(len(messages) for messages in scenario.deliveries)
    return int(4**records * 12**scenario.faults * 4**scenario.expiries)
