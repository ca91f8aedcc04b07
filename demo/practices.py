"""GP practices, their demand, and their patients: read from the NHS's own files, or synthetic."""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appointments.messages import DELIVERY_CHANNELS
from appointments.nhs_number import check_digit
from oneslot.errors import FileUnreadable, InvalidFile
from oneslot.wording import numbered

# The limit for one CSV field: above any field of the NHS's files, and soon exceeded by a binary file.
csv.field_size_limit(65_536)

# NHS Organisation Data Service, "GP practices" file: no header row, 27 columns (counted from 1).
COLUMNS = 27
CODE_COLUMN, NAME_COLUMN, STATUS_COLUMN, SETTING_COLUMN = 1, 2, 13, 26
ACTIVE = "A"
STATUSES = frozenset("ACDP")  # active, closed, dormant, proposed
GP_PRACTICE = "4"
_ODS_CODE = re.compile(r"[A-Z0-9]{3,6}")

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

# The NHS reserves 999 000 0000 to 999 999 9999 for tests.
TEST_RANGE = "999"


@dataclass(frozen=True, slots=True)
class Practice:
    """An active GP practice: its ODS code and its name."""

    code: str
    name: str


@dataclass(frozen=True, slots=True)
class Demand:
    """One practice's year: `appointments`, and their weights for each of DELIVERY_CHANNELS."""

    practice: str
    appointments: int
    channels: tuple[float, ...] = NATIONAL_CHANNELS


def read_practices(path: Path) -> Iterator[Practice]:
    """Yield the active GP practices (status A, prescribing setting 4) of an `epraccur.csv`, in the file's order.

    Raises `BadInput`, naming line and column, for another kind of file, and for one without an active practice.
    """
    seen: set[str] = set()
    for line, fields in _rows(path):
        if len(fields) != COLUMNS:
            raise InvalidFile(
                f"{path}, line {line}: {numbered(len(fields), 'column')}, not {COLUMNS}. "
                "Give the Organisation Data Service's epraccur.csv, which has no header row."
            )
        code, status = fields[CODE_COLUMN - 1].strip(), fields[STATUS_COLUMN - 1].strip()
        if not _ODS_CODE.fullmatch(code):
            raise _invalid(path, line, CODE_COLUMN, code, "an ODS code, e.g. A81001")
        if status not in STATUSES:
            raise _invalid(path, line, STATUS_COLUMN, status, "a status: A, C, D or P")
        if status != ACTIVE or fields[SETTING_COLUMN - 1].strip() != GP_PRACTICE:
            continue
        if code in seen:
            raise _invalid(path, line, CODE_COLUMN, code, "a code of its own; an earlier line has it")
        seen.add(code)
        yield Practice(code, fields[NAME_COLUMN - 1].strip())
    if not seen:
        raise InvalidFile(
            f"{path} has no active GP practice (column {STATUS_COLUMN} = {ACTIVE} and column {SETTING_COLUMN} = "
            f"{GP_PRACTICE})."
        )


def synthetic_practices(count: int) -> list[Practice]:
    """Return synthetic practices Z00001, Z00002, ...: valid codes that no real practice has."""
    return [Practice(f"Z{number:05d}", f"Synthetic Practice {number}") for number in range(1, count + 1)]


def read_demand(path: Path) -> Iterator[Demand]:
    """Yield the demand of each practice with appointments, in the file's order.

    The file has a header row with at least `gp_code`, `total_appointments`, `face_to_face`, `home_visit`, `telephone`
    and `video_online`, and whole numbers below. Raises `BadInput`, naming line and column, for any other file.
    """
    lines = _rows(path)
    _, header = next(lines, (1, []))
    names = [CODE, TOTAL, *(name for group in CHANNEL_COLUMNS for name in group)]
    missing = [name for name in names if name not in header]
    if missing:
        raise InvalidFile(f"{path}, line 1: the header row lacks the columns {', '.join(missing)}.")
    place = {name: header.index(name) for name in names}
    seen: set[str] = set()
    for line, fields in lines:
        if len(fields) != len(header):
            raise InvalidFile(f"{path}, line {line}: {len(fields)} columns, but the header row has {len(header)}.")
        number = {name: _count(path, line, name, fields[place[name]]) for name in names if name != CODE}
        code = fields[place[CODE]].strip()
        if not code or code in seen:
            raise InvalidFile(
                f"{path}, line {line}, column {CODE}: {code[:40]!r} is empty, or repeats an earlier line."
            )
        seen.add(code)
        channels = tuple(float(sum(number[name] for name in group)) for group in CHANNEL_COLUMNS)
        if number[TOTAL]:
            yield Demand(code, number[TOTAL], channels if any(channels) else NATIONAL_CHANNELS)
    if not seen:
        raise InvalidFile(f"{path} has no practice below its header row.")


def synthetic_demand(practices: Iterable[Practice], seed: int) -> Iterator[Demand]:
    """Yield a synthetic year for each practice: log-normal around the national median, at most the largest on record."""
    for practice in practices:
        rng = random.Random(f"demand:{seed}:{practice.code}")
        drawn = rng.lognormvariate(math.log(MEDIAN_A_YEAR), LOGARITHMIC_DEVIATION)
        yield Demand(practice.code, min(LARGEST_A_YEAR, max(1, round(drawn))))


def synthetic_nhs_number(rng: random.Random) -> str:
    """Return a valid NHS number of the test range, which no patient has."""
    while True:
        nine = f"{TEST_RANGE}{rng.randrange(1_000_000):06d}"
        digit = check_digit(nine)
        if digit is not None:
            return f"{nine}{digit}"


def wrong_nhs_number(rng: random.Random) -> str:
    """Return ten digits whose check digit is wrong."""
    number = synthetic_nhs_number(rng)
    return number[:9] + str((int(number[9]) + rng.randrange(1, 10)) % 10)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line number, fields)` for each row that is not empty. One row is held at a time.

    A byte that is not UTF-8 becomes a question mark, because practices' names are only shown. Raises `BadInput` for a file that
    cannot be read or is not CSV text.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            for fields in reader:
                if any("\x00" in field for field in fields):
                    raise InvalidFile(_not_csv(path))
                if fields:
                    yield reader.line_num, fields
    except csv.Error as error:
        raise InvalidFile(_not_csv(path)) from error
    except OSError as error:
        raise FileUnreadable(f"{path} cannot be read: {error.strerror}.") from error


def _not_csv(path: Path) -> str:
    return f"{path} is not a CSV text file. Unpack a zip file first, and name the .csv in it."


def _invalid(path: Path, line: int, column: int, found: str, expected: str) -> InvalidFile:
    return InvalidFile(f"{path}, line {line}, column {column}: {found[:40]!r} is not {expected}.")


def _count(path: Path, line: int, column: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise InvalidFile(f"{path}, line {line}, column {column}: {text[:40]!r} is not a whole number of 0 or more.")
    return int(text)
