"""GP practices: read from the Organisation Data Service's file `epraccur.csv`, or made up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oneslot.errors import BadInput
from workload.csv_files import rows

# NHS Organisation Data Service, "GP practices" file: no header row, 27 columns (counted from 1).
COLUMNS = 27
CODE, NAME, STATUS, PRESCRIBING_SETTING = 1, 2, 13, 26
ACTIVE = "A"
STATUSES = frozenset("ACDP")  # active, closed, dormant, proposed
GP_PRACTICE = "4"

_ODS_CODE = re.compile(r"[A-Z0-9]{3,6}")


@dataclass(frozen=True, slots=True)
class Practice:
    """An active GP practice: its ODS code and its name."""

    code: str
    name: str


def read_practices(path: Path) -> Iterator[Practice]:
    """Yield the active GP practices (status A, prescribing setting 4) of an `epraccur.csv`, in the file's order.

    Raises `BadInput`, naming the line and the column, for a file of another shape; and for one without such a practice.
    """
    seen: set[str] = set()
    for line, fields in rows(path):
        if len(fields) != COLUMNS:
            raise BadInput(
                f"{path}, line {line}: {len(fields)} columns, not {COLUMNS}. "
                "Give the Organisation Data Service's epraccur.csv, which has no header row."
            )
        code, status = fields[CODE - 1].strip(), fields[STATUS - 1].strip()
        if not _ODS_CODE.fullmatch(code):
            raise _wrong(path, line, CODE, code, "an ODS code, e.g. A81001")
        if status not in STATUSES:
            raise _wrong(path, line, STATUS, status, "a status: A, C, D or P")
        if status != ACTIVE or fields[PRESCRIBING_SETTING - 1].strip() != GP_PRACTICE:
            continue
        if code in seen:
            raise _wrong(path, line, CODE, code, "a code that no line before it has")
        seen.add(code)
        yield Practice(code, fields[NAME - 1].strip())
    if not seen:
        raise BadInput(
            f"{path} holds no active GP practice (column {STATUS} = {ACTIVE} and column {PRESCRIBING_SETTING} = "
            f"{GP_PRACTICE})."
        )


def synthetic_practices(count: int) -> list[Practice]:
    """Make up practices Z00001, Z00002, ...: codes of the right shape that no real practice has."""
    return [Practice(f"Z{number:05d}", f"Synthetic Practice {number}") for number in range(1, count + 1)]


def _wrong(path: Path, line: int, column: int, found: str, expected: str) -> BadInput:
    return BadInput(f"{path}, line {line}, column {column}: {found[:40]!r} is not {expected}.")
