"""The plan of what to seed: practices, their slots and days. `send` reads it to address its requests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from demo.practices import Demand, read_demand, read_practices, synthetic_demand, synthetic_practices
from demo.slots import Opening, demanded_slots, share_out, slot_items, working_days
from oneslot.errors import InvalidArguments, InvalidFile
from oneslot.wording import numbered

SYNTHETIC_PRACTICES = 12
# The default at most: England's week would be 7.5 million slots, and the embedded AWS reads a practice's slots one by one.
MOST_SLOTS_UNASKED = 4_000


@dataclass(frozen=True)
class Plan:
    """Practices and their slots over some working days. The same `seed` gives the same slots."""

    openings: Sequence[Opening]
    days: Sequence[date]
    seed: int

    @property
    def slots(self) -> int:
        """The number of slots."""
        return sum(opening.slots for opening in self.openings)

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the slots table, practice by practice."""
        for opening in self.openings:
            yield from slot_items(opening, self.days, self.seed)


@dataclass(frozen=True)
class Candidates:
    """Practices that could take part, and a note of where they come from."""

    demands: list[Demand]
    note: str


def read_candidates(
    practices: Path | None, demand: Path | None, seed: int, *, count: int | None = None, at_most: int | None = None
) -> Candidates:
    """Read the practices and their demand from the given files, or make them up.

    A practice that only one of two files has is left out. `count` practices, or up to `at_most`, are chosen at random by
    `seed`. Raises `BadInput` for an unusable file, and where there are fewer than `count`.
    """
    if practices is None and demand is None:
        made_up = synthetic_practices(count or at_most or SYNTHETIC_PRACTICES)
        return Candidates(list(synthetic_demand(made_up, seed)), numbered(len(made_up), "synthetic practice"))
    demands, note = _read_files(practices, demand, seed)
    if count is not None and count > len(demands):
        raise InvalidArguments(
            f"{count:,} practices were asked for, and there are fewer: {note}. Lower --practice-count."
        )
    limit = count or at_most or len(demands)
    if limit < len(demands):
        demands = sorted(random.Random(f"practices:{seed}").sample(demands, limit), key=lambda line: line.practice)
        note += f"; {limit:,} of these, chosen at random, take part"
    return Candidates(demands, note)


def _read_files(practices: Path | None, demand: Path | None, seed: int) -> tuple[list[Demand], str]:
    if practices is None:
        if demand is None:
            raise ValueError("one of the two files must be given")
        demands = list(read_demand(demand))
        return demands, f"{numbered(len(demands), 'practice')} in {demand.name}"
    active = {practice.code: practice for practice in read_practices(practices)}
    note = f"{numbered(len(active), 'active GP practice')} in {practices.name}"
    if demand is None:
        return list(synthetic_demand(active.values(), seed)), f"{note}, with synthetic demand"
    demands = [line for line in read_demand(demand) if line.practice in active]
    if not demands:
        raise InvalidFile(f"{demand} and {practices} have no practice in common. Give files of the same region.")
    return demands, f"{note}, {len(demands):,} of them with demand in {demand.name}"


def make_plan(demands: Sequence[Demand], first_day: date, days: int, slots: int | None, seed: int) -> Plan:
    """Share slots out among the practices: `slots`, or as many as the demand up to MOST_SLOTS_UNASKED."""
    if slots is not None and slots < len(demands):
        raise InvalidArguments(
            f"{slots:,} slots are too few for {len(demands):,} practices, of which each needs one. Raise --slots."
        )
    if slots is None:
        slots = max(len(demands), min(MOST_SLOTS_UNASKED, demanded_slots(demands, days)))
    return Plan(share_out(slots, demands), working_days(first_day, days), seed)


def save(plan: Plan, path: Path, target: str) -> None:
    """Write the plan that was seeded into `target` (its `Target.identity`)."""
    document = {
        "target": target,
        "seed": plan.seed,
        "days": [day.isoformat() for day in plan.days],
        "practices": [
            [opening.demand.practice, opening.demand.appointments, opening.demand.channels, opening.slots]
            for opening in plan.openings
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def load(path: Path, target: str) -> Plan | None:
    """Return the plan that was seeded into `target`, or None. Raises `BadInput` for a damaged file."""
    try:
        document = json.loads(path.read_text())
        if document["target"] != target:
            return None
        return Plan(
            openings=[
                Opening(Demand(code, appointments, tuple(channels)), slots)
                for code, appointments, channels, slots in document["practices"]
            ],
            days=[date.fromisoformat(day) for day in document["days"]],
            seed=document["seed"],
        )
    except FileNotFoundError:
        return None
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} is not a valid plan.") from error
