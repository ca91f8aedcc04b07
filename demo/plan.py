"""The plan of what to seed: practices, their slots and days. `send` reads it to address its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from demo.practices import Demand
from demo.slots import Opening, demanded_slots, share_out, slot_items, working_days
from oneslot.errors import InvalidArguments, InvalidFile

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
            [opening.demand.practice, opening.demand.appointments, opening.slots] for opening in plan.openings
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
                Opening(Demand(code, appointments), slots) for code, appointments, slots in document["practices"]
            ],
            days=[date.fromisoformat(day) for day in document["days"]],
            seed=document["seed"],
        )
    except FileNotFoundError:
        return None
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} is not a valid plan.") from error
