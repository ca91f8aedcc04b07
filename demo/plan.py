"""The plan of what to seed: made-up practices, their slots and days. `send` reads it to address its requests."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from appointments.allocation import free_key, utc_text
from appointments.messages import DELIVERY_CHANNELS
from appointments.nhs_number import check_digit
from appointments.statuses import FREE
from oneslot.errors import InvalidArguments, InvalidFile

LOCAL_TIME = ZoneInfo("Europe/London")
# Core hours of a GP practice, Monday to Friday (the NHS's GP contract).
OPENS, CLOSES = time(8, 0), time(18, 30)
SLOT = timedelta(minutes=10)
SLOTS_A_DIARY = 63
DAYS = 5
# NHS England, Appointments in General Practice, April 2025 to March 2026: the channels' shares, and how much practices differ
# (the standard deviation of the natural logarithm of their appointments).
CHANNEL_WEIGHTS = (0.641, 0.244, 0.091)
LOGARITHMIC_DEVIATION = 0.653
SERVICE_TYPES = ("General Consultation Routine", "General Consultation Acute", "Clinical Triage", "Planned Clinics")
SERVICE_WEIGHTS = (50, 25, 15, 10)


@dataclass(frozen=True)
class Plan:
    """The number of slots of each practice (its ODS code) over some working days. The same `seed` gives the same slots."""

    practices: Mapping[str, int]
    days: Sequence[date]
    seed: int

    @property
    def slots(self) -> int:
        """The number of slots."""
        return sum(self.practices.values())

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the slots table, all free: clinicians' diaries, each filled from 08:00 to 18:30."""
        for practice, slots in self.practices.items():
            rng = random.Random(f"slots:{self.seed}:{practice}")
            for number in range(slots):
                position, day = divmod(number, len(self.days))
                clinician, place = divmod(position, SLOTS_A_DIARY)
                start = opening_hours(self.days[day])[0] + place * SLOT
                slot = {
                    "practice": practice,
                    "slot_id": f"{start:%Y%m%dT%H%MZ}-{clinician + 1:02d}",
                    "start": utc_text(start),
                    "end": utc_text(start + SLOT),
                    "status": FREE,
                    "delivery_channel": rng.choices(DELIVERY_CHANNELS, CHANNEL_WEIGHTS)[0],
                    "service_type": rng.choices(SERVICE_TYPES, SERVICE_WEIGHTS)[0],
                }
                yield {**slot, "free_key": free_key(slot)}


def make_plan(practices: int | Sequence[str], slots: int, seed: int, monday: date | None = None) -> Plan:
    """Share slots out among practices, at least one each, for five days from next Monday on unless another is given.

    practices: their codes, or a number of made-up ones: Z00001, Z00002, ..., which no real practice has.
    Raises `InvalidArguments` for fewer slots than practices.
    """
    codes = [f"Z{number:05d}" for number in range(1, practices + 1)] if isinstance(practices, int) else practices
    if slots < len(codes):
        raise InvalidArguments(
            f"{slots:,} slots are too few for {len(codes):,} practices, of which each needs one. Raise --slots."
        )
    rng = random.Random(f"practices:{seed}")
    demand = [rng.lognormvariate(0, LOGARITHMIC_DEVIATION) for _ in codes]
    shares = Counter(dict.fromkeys(codes, 1))
    shares.update(rng.choices(codes, demand, k=slots - len(codes)))
    return Plan(dict(shares), working_days(monday or next_monday(datetime.now(LOCAL_TIME).date())), seed)


def working_days(monday: date) -> list[date]:
    """Return the days of a week, Monday to Friday."""
    return [monday + timedelta(days=number) for number in range(DAYS)]


def next_monday(today: date) -> date:
    """Return the first Monday after `today`: all of its slots are still to come."""
    return today + timedelta(days=7 - today.weekday())


def opening_hours(day: date) -> tuple[datetime, datetime]:
    """Return when that day's first slot may start and its last must end, in UTC."""
    opens, closes = (datetime.combine(day, at, LOCAL_TIME).astimezone(UTC) for at in (OPENS, CLOSES))
    return opens, closes


def synthetic_nhs_number(rng: random.Random) -> str:
    """Return a valid NHS number of the range that the NHS reserves for tests (999 000 0000 to 999 999 9999)."""
    while True:
        nine = f"999{rng.randrange(1_000_000):06d}"
        digit = check_digit(nine)
        if digit is not None:
            return f"{nine}{digit}"


def save(plan: Plan, path: Path, target: str) -> None:
    """Write the plan that was seeded into `target` (its `Target.identity`)."""
    days = [day.isoformat() for day in plan.days]
    document = {"target": target, "seed": plan.seed, "days": days, "practices": dict(plan.practices)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def load(path: Path, target: str) -> Plan | None:
    """Return the plan that was seeded into `target`, or None. Raises `BadInput` for a damaged file."""
    try:
        document = json.loads(path.read_text())
        if document["target"] != target:
            return None
        practices = {str(code): int(slots) for code, slots in document["practices"].items()}
        return Plan(practices, [date.fromisoformat(day) for day in document["days"]], document["seed"])
    except FileNotFoundError:
        return None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidFile(f"{path} is not a valid plan.") from error
