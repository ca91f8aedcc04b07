"""Judge the mutants by the simulation: each must die within `SEEDS` seeds of its scenarios, or a guard explains it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.mutation.mutants import Workbench
from lab.simulation.mutants.change import Change
from lab.simulation.mutants.changes import CHANGES

SEEDS = 200
"""The seeds of each scenario within which a mutant must die."""

NEEDED_SHARE = 0.95
"""The share of mutants that must die."""

EXPECTED = Path(__file__).with_name("expected.json")

_WHERE = re.compile(r"\((?P<scenario>[\w-]+), seed (?P<seed>\d+)\)")


@dataclass(frozen=True, slots=True)
class Judged:
    """What the simulation found: the first broken law with its scenario and seed; empty if the mutant lives."""

    change: Change
    found: str


def judge_all(changes: Iterable[Change], on_judged: Callable[[Judged], None] = lambda judged: None) -> list[Judged]:
    """Judge these, one after the other. `on_judged` gets each."""
    known, judged = expected(), []
    with Workbench() as bench:
        for change in changes:
            found = judge(bench, change, known.get(change.defect, ""))
            judged.append(Judged(change, found))
            on_judged(judged[-1])
    return judged


def judge(bench: Workbench, change: Change, hint: str = "") -> str:
    """Return the law that a mutant breaks first; empty for none. The run that `hint` names is tried first."""
    with bench.mutated(change.mutant):
        where = _WHERE.search(hint)
        again = bench.simulate([where["scenario"]], int(where["seed"]), 1) if where else ""
        return again or bench.simulate(change.scenarios, 0, SEEDS)


def expected() -> Mapping[str, str]:
    """Return the recorded judgements, by mutant."""
    known: dict[str, str] = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    return known


def record(judged: Iterable[Judged]) -> None:
    """Record the judgements, one mutant a line."""
    lines = [f"  {json.dumps(each.change.defect)}: {json.dumps(each.found)}" for each in judged]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def problems(found: Mapping[str, str], changes: Sequence[Change] = CHANGES) -> list[str]:
    """Return what is wrong with these judgements, by mutant: too many live, or one lives or dies without reason."""
    lines = [f"{change.defect}: lives, and no guard explains it" for change in changes if not _explained(change, found)]
    lines += [
        f"{change.defect}: dies ({found[change.defect]}), though a guard explains why it lives"
        for change in changes
        if change.guard and found.get(change.defect)
    ]
    dead = sum(bool(found.get(change.defect)) for change in changes)
    if dead < NEEDED_SHARE * len(changes):
        lines.append(f"{dead} of {len(changes)} mutants die; it must be {NEEDED_SHARE:.0%}")
    return lines


def _explained(change: Change, found: Mapping[str, str]) -> bool:
    return bool(found.get(change.defect) or change.guard)
