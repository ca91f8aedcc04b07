"""How many appointments a practice makes, and by which delivery channel: read from a file, or made up."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appointments.messages import DELIVERY_CHANNELS
from oneslot.errors import BadInput
from workload.csv_files import rows
from workload.practices import Practice

# NHS England, Appointments in General Practice, April 2025 to March 2026, per practice: median and largest total of the
# year, and the standard deviation of the natural logarithm (6,067 practices).
MEDIAN_A_YEAR = 51_380
LARGEST_A_YEAR = 648_456
LOGARITHMIC_DEVIATION = 0.653

# The same year, England: 62.9 % face to face and 1.2 % home visits, 24.4 % by telephone, 9.1 % by video or online
# (2.4 % not recorded).
NATIONAL_CHANNELS = (0.641, 0.244, 0.091)

CODE, TOTAL = "gp_code", "total_appointments"
# In the order of DELIVERY_CHANNELS: In-person, Telephone, Video.
CHANNEL_COLUMNS = (("face_to_face", "home_visit"), ("telephone",), ("video_online",))
assert len(CHANNEL_COLUMNS) == len(NATIONAL_CHANNELS) == len(DELIVERY_CHANNELS)  # noqa: S101 - the three go together


@dataclass(frozen=True, slots=True)
class Demand:
    """One practice's year: `appointments`, and how they divide among DELIVERY_CHANNELS (weights, in that order)."""

    practice: str
    appointments: int
    channels: tuple[float, ...] = NATIONAL_CHANNELS


def read_demand(path: Path) -> Iterator[Demand]:
    """Yield the demand of each practice that made appointments, in the file's order.

    The file has a header row with at least `gp_code`, `total_appointments`, `face_to_face`, `home_visit`, `telephone`
    and `video_online`; whole numbers below. Raises `BadInput`, naming line and column, for anything else.
    """
    lines = rows(path)
    _, header = next(lines, (1, []))
    names = [CODE, TOTAL, *(name for group in CHANNEL_COLUMNS for name in group)]
    missing = [name for name in names if name not in header]
    if missing:
        raise BadInput(f"{path}, line 1: the header row lacks the column(s) {', '.join(missing)}.")
    place = {name: header.index(name) for name in names}
    seen: set[str] = set()
    for line, fields in lines:
        if len(fields) != len(header):
            raise BadInput(f"{path}, line {line}: {len(fields)} columns, but the header row has {len(header)}.")
        number = {name: _count(path, line, name, fields[place[name]]) for name in names if name != CODE}
        code = fields[place[CODE]].strip()
        if not code or code in seen:
            raise BadInput(f"{path}, line {line}, column {CODE}: {code[:40]!r} is empty, or was on a line before.")
        seen.add(code)
        channels = tuple(float(sum(number[name] for name in group)) for group in CHANNEL_COLUMNS)
        if number[TOTAL]:
            yield Demand(code, number[TOTAL], channels if any(channels) else NATIONAL_CHANNELS)
    if not seen:
        raise BadInput(f"{path} holds no practice below its header row.")


def synthetic_demand(practices: Iterable[Practice], seed: int) -> Iterator[Demand]:
    """Make up a year for each practice: log-normal around the national median, at most the largest on record."""
    for practice in practices:
        rng = random.Random(f"demand:{seed}:{practice.code}")
        drawn = rng.lognormvariate(math.log(MEDIAN_A_YEAR), LOGARITHMIC_DEVIATION)
        yield Demand(practice.code, min(LARGEST_A_YEAR, max(1, round(drawn))))


def _count(path: Path, line: int, column: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise BadInput(f"{path}, line {line}, column {column}: {text[:40]!r} is not a whole number of 0 or more.")
    return int(text)
