"""The boundary where rows and log lines are checked: every malformed one is named, and everything else is used as it is.

The consumer writes no malformed row or line; a repair by hand may. Every verb names them in the same words, leaves out what
needs them, and shows the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from oneslot.laws.evidence import Evidence, lacking
from oneslot.laws.form import CONSUMED_ROW, LEDGER_ROW, without_null
from oneslot.laws.schema import Schema, Table
from oneslot.laws.traces import COMPLETE, IN_PROGRESS
from oneslot.operator.evidence.tables import scan
from oneslot.operator.target import Target
from oneslot.runtime.protocol import UNSENT

DELIVERY_LOG = "delivery log"
RELEASED = "released"
"""The status under which a ledger row with a released lease is counted."""
UNKNOWN = "unknown"
"""The status under which a row without a valid one is counted."""
SHOWN = 10
ROWS = "rows"
"""The status under which the rows of a table without statuses are counted."""
LEDGER = Table("ledger", ("message_id",), attributes=tuple(LEDGER_ROW.attributes))
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Malformed:
    """One attribute that is missing, of another type, or out of range.

    `where` is a table or the delivery log; `key` is the row's key or the line's place.
    """

    where: str
    key: str
    attribute: str

    def __str__(self) -> str:
        subject = self.key if self.where == DELIVERY_LOG else f"the row {self.key} of the table {self.where}"
        return f"{subject} has no valid attribute {self.attribute}"


@dataclass
class Tally:
    """The rows of one table by status, those without a valid one under `UNKNOWN`, and the malformed attributes.

    `unsent`: the ledger's rows that hold messages for a relay.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    malformed: list[Malformed] = field(default_factory=list)
    unsent: list[Mapping[str, Any]] = field(default_factory=list)


def tally(target: Target, table: Table = LEDGER) -> Tally:
    """Scan the whole table and count its rows. A ledger row with a released lease counts as `released`."""
    counted = Tally()
    name = target.outputs.ledger_table_name if table is LEDGER else target.outputs.tables[table.name]
    usual = UNKNOWN if table is LEDGER or "status" in table.attributes else ROWS
    rows = scan(target.dynamodb, name, table.attributes)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        counted.statuses.update(_status(row, usual) for row in some)
        counted.malformed += malformed_rows(table, some)
        counted.unsent += [row for row in some if table is LEDGER and row.get(UNSENT)]
    return counted


def _status(row: Mapping[str, Any], usual: str) -> str:
    status = row.get("status")
    if status == IN_PROGRESS and row.get("lease_until") == 0:
        return RELEASED
    return status if isinstance(status, str) else usual


def malformed_rows(table: Table, rows: Iterable[Mapping[str, Any]]) -> list[Malformed]:
    """Return the malformed attributes that the laws need, in these rows of one table."""
    by_key = table.by_key(rows)
    if table is LEDGER:
        return malformed_evidence(Evidence(ledger={str(key): row for key, row in by_key.items()}))
    return malformed_evidence(Evidence(tables={table.name: by_key}, schema=Schema({table.name: table})))


def malformed_evidence(evidence: Evidence) -> list[Malformed]:
    """Return the malformed attributes that the laws need, in all rows of the evidence."""
    return [Malformed(*found) for found in lacking(evidence)]


def malformed_ledger_row(row: Mapping[str, Any]) -> list[Malformed]:
    """Return the malformed attributes of a ledger row that the invariants, the consumer or the repairs need."""
    names = dict.fromkeys([*LEDGER_ROW(row), *CONSUMED_ROW(row)])
    return [Malformed("ledger", row["message_id"], name) for name in names]


def blocking_attributes(row: Mapping[str, Any]) -> list[Malformed]:
    """Return the malformed attributes because of which every delivery of the row's request fails.

    A duplicate's answer needs a whole COMPLETE row. A takeover only adds to the count, and sets every other attribute.
    """
    needed = {"status", "lease_until", "payload_hash"}
    if row.get("status") == COMPLETE:
        needed |= {"result"} | ({"claimed_by", "consumption_count"} - row.keys())
    else:
        needed |= {"consumption_count"} & row.keys()
    return [found for found in malformed_ledger_row(row) if found.attribute in needed]


class Standing(StrEnum):
    """The state of a ledger row at one moment."""

    COMPLETE = "complete"
    LEASED = "leased"
    RELEASED = "released"
    EXPIRED = "expired"
    MALFORMED = "malformed"


def standing(row: Mapping[str, Any], now_ms: int) -> Standing:
    """Return the state of a ledger row at this time (epoch ms)."""
    if malformed_ledger_row(row):
        return Standing.MALFORMED
    if row["status"] == COMPLETE:
        return Standing.COMPLETE
    if row["lease_until"] == 0:
        return Standing.RELEASED
    return Standing.LEASED if row["lease_until"] >= now_ms else Standing.EXPIRED


def malformed_delivery(line: Mapping[str, Any], schema: Schema) -> str | None:
    """Return the first malformed attribute of a line of the delivery log, by the audit's rules; None if it is valid."""
    return next(schema.delivery(without_null(line)), None)


def format_malformed(found: Sequence[Malformed], command: Callable[[str], str]) -> Iterator[str]:
    """Yield a sentence for each of the first ten, the number of the others, and the remedy; `command`: `Target.command`."""
    for one in found[:SHOWN]:
        yield f"{str(one)[0].upper()}{str(one)[1:]}."
    if len(found) > SHOWN:
        yield f"... and {len(found) - SHOWN:,} more: see --json."
    rows = [one for one in found if one.where != DELIVERY_LOG]
    if rows:
        ledger = next((one.key for one in rows if one.where == "ledger"), None)
        forget = f" ({command(f'ledger forget {ledger}')})" if ledger else ""
        yield f"The consumer writes no such row. Complete it by hand, or delete it{forget}."
    if len(rows) < len(found):
        yield "The consumer logs no such line. Every count leaves it out."
    if any(one.where == DELIVERY_LOG and one.attribute == "outcome" for one in found):
        yield "Does your consumer have a new outcome? Declare it in oneslot.toml, as [outcomes.NAME], and the lines count."
