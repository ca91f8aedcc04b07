"""Runs everything that `make explore` shows: our explorations, the museum, the mutants; and puts it down as figures."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from typing import Any

from oneslot.explorer.counterexample import Counterexample, counterexample
from oneslot.explorer.explorer import Exploration, Explorer
from oneslot.explorer.scenario import OURS, OURS_IN_GROUPS, Scenario, Subject
from verification.mutation.mutants import NOBODY, Verdict
from verification.peers.peers import EXHIBITS, OURS_IN_MUSEUM
from verification.scenarios.group_scenarios import GROUPS_FULL, GROUPS_SHORT
from verification.scenarios.scenarios import FULL, ONE_REQUEST, SHORT

SUBJECTS = {
    subject.name: subject
    for subject in (OURS, OURS_IN_GROUPS, *(exhibit.subject for exhibit in EXHIBITS), OURS_IN_MUSEUM)
}


@dataclass(frozen=True)
class Explored:
    """An exploration's figures, and a shortest path to the first breach of each law."""

    exploration: Exploration
    counterexamples: tuple[Counterexample, ...]


@dataclass(frozen=True)
class Proof:
    """All figures of one run. `seconds` are the explorations', without the mutants.

    `museum` has a row for each of `EXHIBITS`, and one for ours in the same budget, the control.
    """

    ours: tuple[Explored, ...]
    museum: tuple[Explored, ...]
    mutants: tuple[Verdict, ...]
    unexpected: tuple[str, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """No law of ours is broken, every exhibit is found out, every mutant is caught or explained, as checked in."""
        if not self.ours or len(self.museum) != len(EXHIBITS) + 1:
            return False  # what was not explored shows nothing
        *exhibits, control = self.museum
        return (
            all(one.exploration.complete and not one.exploration.laws_broken for one in (*self.ours, control))
            and all(
                exhibit.breaks <= set(one.exploration.laws_broken)
                for exhibit, one in zip(EXHIBITS, exhibits, strict=True)
            )
            and not self.unexpected
            and all(verdict.by != NOBODY for verdict in self.mutants)
        )

    @property
    def document(self) -> dict[str, Any]:
        """As JSON values. The mutants are there only if this run judged them."""
        return {
            "holds": self.holds,
            "seconds": round(self.seconds, 1),
            "explorations": [figures(one.exploration) for one in self.ours],
            "totals": {
                "schedules": sum(one.exploration.schedules for one in self.ours),
                "executions": sum(one.exploration.executions for one in self.ours),
                "states": sum(one.exploration.states for one in self.ours),
                "violating": sum(one.exploration.violating for one in self.ours),
            },
            "museum": [figures(one.exploration) for one in self.museum],
            **({"mutants": dict(Counter(verdict.by for verdict in self.mutants))} if self.mutants else {}),
            "unexpected": list(self.unexpected),
        }


def figures(exploration: Exploration) -> dict[str, Any]:
    """An exploration as JSON values, without its paths."""
    known = asdict(replace(exploration, breaches=()))
    del known["breaches"]
    return {**known, "seconds": round(exploration.seconds, 1)}


def explore_one(scenario: Scenario, subject: str) -> Explored:
    """One exploration to its end."""
    explorer = Explorer(scenario, SUBJECTS[subject])
    exploration = explorer.run(False, lambda states, waiting: None)
    told = tuple(counterexample(explorer.system, breach) for breach in exploration.breaches)
    return Explored(exploration, told)


def explore_all(
    short: bool, told: Callable[[Explored], None], workers: int | None = None
) -> tuple[tuple[Explored, ...], tuple[Explored, ...]]:
    """Ours and the museum, some at a time; `told` hears each as it ends. The answers are in their lists' order."""
    ours = [(scenario, OURS.name) for scenario in (SHORT if short else FULL)]
    ours += [(scenario, OURS_IN_GROUPS.name) for scenario in (GROUPS_SHORT if short else GROUPS_FULL)]
    names = [*(exhibit.subject.name for exhibit in EXHIBITS), OURS_IN_MUSEUM.name]
    museum = [(ONE_REQUEST, name) for name in names]
    tasks: Sequence[tuple[Scenario, str]] = [*ours, *museum]
    answers: dict[int, Explored] = {}
    # Spawned, not forked: a fork of a process with threads can stand still.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or multiprocessing.cpu_count(), context) as pool:
        # The longest ones first, so that none of them runs alone at the end.
        order = sorted(range(len(tasks)), key=lambda position: -_weight(tasks[position][0]))
        futures = {pool.submit(explore_one, *tasks[position]): position for position in order}
        for future in as_completed(futures):
            answers[futures[future]] = future.result()
            told(future.result())
    return (
        tuple(answers[position] for position in range(len(ours))),
        tuple(answers[len(ours) + position] for position in range(len(museum))),
    )


def to_json(proof: Proof) -> str:
    """As a file's text."""
    return json.dumps(proof.document, indent=1) + "\n"


def subject_named(name: str) -> Subject | None:
    """A subject by its name."""
    return SUBJECTS.get(name)


def _weight(scenario: Scenario) -> int:
    records = sum(len(messages) for messages in scenario.deliveries)
    return int(4**records * 12**scenario.faults * 4**scenario.expiries)
