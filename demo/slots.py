"""Appointment slots: how many each practice opens, and its clinicians' diaries, day by day."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from appointments.allocation import free_key, utc_text
from appointments.messages import DELIVERY_CHANNELS
from appointments.statuses import FREE
from demo.practices import CHANNEL_WEIGHTS, Demand

LOCAL_TIME = ZoneInfo("Europe/London")
# Core hours of a GP practice, Monday to Friday (the NHS's GP contract).
OPENS, CLOSES = time(8, 0), time(18, 30)
SATURDAY = 5
# England's working days in a year: 52 weeks of five, less eight bank holidays, which are otherwise not looked at.
WORKING_DAYS_A_YEAR = 252

# National categories of the NHS's GP appointments data, minutes each, and how they divide (our choice, no statistic).
SERVICES = (
    ("General Consultation Routine", 10, 50),
    ("General Consultation Acute", 10, 25),
    ("Clinical Triage", 10, 15),
    ("Planned Clinics", 30, 10),
)
SERVICE_TYPES = tuple(name for name, _, _ in SERVICES)
SERVICE_WEIGHTS = tuple(weight for _, _, weight in SERVICES)
MINUTES = {name: minutes for name, minutes, _ in SERVICES}


@dataclass(frozen=True, slots=True)
class Opening:
    """The slots that one practice opens, over all days and channels."""

    demand: Demand
    slots: int


def working_days(first: date, count: int) -> list[date]:
    """Return `count` days, Monday to Friday, from `first` on."""
    days: list[date] = []
    day = first
    while len(days) < count:
        if day.weekday() < SATURDAY:
            days.append(day)
        day += timedelta(days=1)
    return days


def next_monday(today: date) -> date:
    """Return the first Monday after `today`: all of its slots are still to come."""
    return today + timedelta(days=7 - today.weekday())


def opening_hours(day: date) -> tuple[datetime, datetime]:
    """Return when that day's first slot may start and its last must end, in UTC."""
    opens, closes = (datetime.combine(day, at, LOCAL_TIME).astimezone(UTC) for at in (OPENS, CLOSES))
    return opens, closes


def demanded_slots(demands: Sequence[Demand], days: int) -> int:
    """Return how many slots these practices use in that many working days, by their year."""
    return sum(max(1, round(demand.appointments * days / WORKING_DAYS_A_YEAR)) for demand in demands)


def share_out(total: int, demands: Sequence[Demand]) -> list[Opening]:
    """Divide `total` slots, which reach the practices' number, in proportion to demand, at least one each.

    The largest remainders get the slots that rounding leaves, so the numbers add up to `total`.
    """
    spare = total - len(demands)
    weight = sum(demand.appointments for demand in demands)
    exact = [spare * demand.appointments / weight for demand in demands]
    shares = [1 + int(share) for share in exact]
    by_remainder = sorted(range(len(demands)), key=lambda at: (int(exact[at]) - exact[at], demands[at].practice))
    for at in by_remainder[: total - sum(shares)]:
        shares[at] += 1
    return [Opening(demand, share) for demand, share in zip(demands, shares, strict=True)]


def slot_items(opening: Opening, days: Sequence[date], seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the slots table for one practice, all free. The same arguments give the same rows."""
    for number, day in enumerate(days):
        # The remainder goes to the first days, because Mondays are the busiest.
        count = opening.slots // len(days) + (number < opening.slots % len(days))
        yield from _day(opening.demand.practice, day, count, seed)


def _day(practice: str, day: date, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """One day: clinicians' diaries, filled from 08:00 to 18:30, one after the other."""
    rng = random.Random(f"slots:{seed}:{practice}:{day.isoformat()}")
    opens, closes = opening_hours(day)
    clinician, at = 1, opens
    for _ in range(count):
        channel = rng.choices(DELIVERY_CHANNELS, CHANNEL_WEIGHTS)[0]
        service = rng.choices(SERVICE_TYPES, SERVICE_WEIGHTS)[0]
        length = timedelta(minutes=MINUTES[service])
        if at + length > closes:
            clinician, at = clinician + 1, opens
        slot = {
            "practice": practice,
            "slot_id": f"{at:%Y%m%dT%H%MZ}-{clinician:02d}",
            "start": utc_text(at),
            "end": utc_text(at + length),
            "status": FREE,
            "delivery_channel": channel,
            "service_type": service,
        }
        yield {**slot, "free_key": free_key(slot)}
        at += length
