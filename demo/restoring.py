"""Rows that differ from a table restored beside the deployed one, and their return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from demo.errors import TableNotRestored
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.operator.evidence.operator_log import OperatorLog
from oneslot.operator.evidence.tables import Missing, unless_missing
from oneslot.operator.repair.changing import change_row
from oneslot.runtime.values import from_attributes
from oneslot.target import Target

Row = dict[str, Any]
Key = tuple[tuple[str, str], ...]

TABLES = ("appointments", "ledger", "slots")
"""In the order of their return: an appointment names the holder of a slot."""

STAYS, GOES_BACK, IS_DELETED = "stays", "goes back", "is deleted"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A row that differs from the restored table's.

    Attributes:
        table: "appointments", "ledger" or "slots".
        key: its key attributes and their values.
        what: `STAYS`, `GOES_BACK` or `IS_DELETED`.
        before: the row in the restored table; None if it has none.
        seen: the row in the deployed table; None if it has none.
    """

    table: str
    key: Key
    what: str
    before: Row | None
    seen: Row | None


def differences(target: Target, *, suffix: str, since_ms: int, everything: bool) -> Iterator[Difference]:
    """Yield each row that differs, except expired ones.

    A row that the consumer wrote since `since_ms` stays, and so does one that the restored table lacks. With `everything`
    none stays. Holds two tables in memory.
    """
    _require_restored(target, suffix)
    appointments = _rows(target, _name(target, "appointments"))
    for table in TABLES:
        name = _name(target, table)
        now = appointments if table == "appointments" else _rows(target, name)
        before = _rows(target, name + suffix)
        for key in sorted({*now, *before}):
            row, old = now.get(key), before.get(key)
            if row == old or (old is not None and row is None and _expired(old, target.surroundings.now_ms())):
                continue
            stays = not everything and (old is None or _written(table, row, old, appointments) >= since_ms)
            what = STAYS if stays else GOES_BACK if old is not None else IS_DELETED
            yield Difference(table=table, key=key, what=what, before=old, seen=row)
            if table == "appointments" and not stays:
                # A slot is judged by the appointments as they will be.
                now.pop(key, None)
                now.update({key: old} if old is not None else {})


def put_back(target: Target, one: Difference, log: OperatorLog, subject: Mapping[str, Any]) -> bool:
    """Write the restored row over the present one, or delete a row that the restored table lacks.

    Return False, and leave the row, if it has changed since it was compared. `subject` is added to its lines in the operator
    log, which keep the present row but for attributes that the declaration does not name, such as a patient's number.
    """
    seen, becomes = one.seen or {}, one.before if one.what == GOES_BACK else None
    kept = LEDGER_ATTRIBUTES if one.table == "ledger" else target.declaration.schema.tables[one.table].attributes
    return change_row(
        target.dynamodb,
        log,
        "restore",
        {"table": one.table, "key": dict(one.key), **subject},
        table=_name(target, one.table),
        key={attribute: {"S": text} for attribute, text in one.key},
        seen=seen,
        compared={*seen, *(one.before or {})},
        becomes=becomes,
        before=one.seen and from_attributes({name: seen[name] for name in kept if name in seen}),
    )


def _require_restored(target: Target, suffix: str) -> None:
    """Raise `TableNotRestored` unless each table has one restored beside it."""
    names = [_name(target, table) + suffix for table in TABLES]
    missing = [name for name in names if isinstance(unless_missing(partial(_keys, target, name), name, name), Missing)]
    if missing:
        raise TableNotRestored(
            f"There is no restored table {', '.join(missing)}. Restore each table beside the deployed one first, as "
            "docs/do/restore.md says, or give the end of their names: --suffix."
        )


def _name(target: Target, table: str) -> str:
    return target.outputs.ledger_table_name if table == "ledger" else target.outputs.tables[table]


def _rows(target: Target, name: str) -> dict[Key, Row]:
    keys = _keys(target, name)
    pages = target.dynamodb.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
    return {tuple((key, row[key]["S"]) for key in keys): dict(row) for page in pages for row in page["Items"]}


def _keys(target: Target, name: str) -> list[str]:
    schema = target.dynamodb.describe_table(TableName=name)["Table"]["KeySchema"]
    return [key["AttributeName"] for key in schema]


def _written(table: str, row: Row | None, old: Row, appointments: Mapping[Key, Row]) -> int:
    """Return when the consumer last wrote the row. A slot was written with the appointment that holds it, or held it."""
    if table != "slots":
        return _number(row, "updated")
    holders = [each["appointment_id"]["S"] for each in (row or {}, old) if "appointment_id" in each]
    return max((_number(appointments.get((("appointment_id", holder),)), "updated") for holder in holders), default=0)


def _expired(row: Row, now_ms: int) -> bool:
    return 0 < _number(row, "expires_at") * 1000 < now_ms


def _number(row: Row | None, attribute: str) -> int:
    return int((row or {}).get(attribute, {}).get("N", 0))
