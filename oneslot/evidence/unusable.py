"""Rows and lines that lack what must be known of them. No program of this project leaves such; a person may.

Every verb names them the same way, leaves them out of what cannot do without, and shows the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from appointments.invariants import Evidence, lacking, result_of
from appointments.statuses import COMPLETE, IN_PROGRESS
from oneslot.evidence.scanning import scan
from oneslot.pipeline.vocabulary import FILE_PREFIX, SLOT_PREFIX, UNIDENTIFIED_PREFIX, Delivered

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

Table = Literal["ledger", "slots", "appointments"]

DELIVERY_LOG = "delivery log"
RELEASED = "released"
"""What a row of the ledger whose lease was ended is counted as."""
UNKNOWN = "unknown"
"""What a row without a usable status is counted as."""
LATEST_EPOCH_MS = 4_102_444_800_000  # the year 2100
SHOWN = 10

# What `lacking` asks of a row, keys first.
_KEYS: Mapping[Table, tuple[str, ...]] = {
    "ledger": ("message_id",),
    "slots": ("practice", "slot_id"),
    "appointments": ("appointment_id",),
}
_ASKED: Mapping[Table, tuple[str, ...]] = {
    "ledger": ("status", "consumption_count", "lease_until"),
    "slots": ("status", "appointment_id"),
    "appointments": ("status", "practice", "slot_id", "created", "updated", "cancelled_by"),
}
_ROWS_AT_ONCE = 1_000
_OUTCOMES = frozenset(delivered.name.lower() for delivered in Delivered)


@dataclass(frozen=True)
class Unusable:
    """One attribute that is missing, or of another type, or out of all range.

    `where` is a table (`ledger`, `slots`, `appointments`) or the delivery log; `key` the row's key, or the line's place.
    """

    where: str
    key: str
    attribute: str

    def __str__(self) -> str:
        what = self.key if self.where == DELIVERY_LOG else f"the row {self.key} of the table {self.where}"
        return f"{what} has no usable attribute {self.attribute}"


@dataclass
class Tally:
    """How many rows there are of each status, those without a usable one as `UNKNOWN`; and what is unusable."""

    statuses: Counter[str] = field(default_factory=Counter)
    unusable: list[Unusable] = field(default_factory=list)


def tally(client: DynamoDBClient, table_name: str, table: Table) -> Tally:
    """Read the whole table and count its rows. A ledger's row whose lease was ended counts as `released`."""
    made = Tally()
    rows = scan(client, table_name, (*_KEYS[table], *(name for name in _ASKED[table] if name not in _KEYS[table])))
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        made.statuses.update(_status(row) for row in some)
        made.unusable += unusable_rows(table, some)
    return made


def _status(row: Mapping[str, Any]) -> str:
    status = row.get("status")
    if status == IN_PROGRESS and row.get("lease_until") == 0:
        return RELEASED
    return status if isinstance(status, str) else UNKNOWN


def unusable_rows(table: Table, rows: Iterable[Mapping[str, Any]]) -> list[Unusable]:
    """What the invariants need and these rows of one table lack."""
    keys = _KEYS[table]
    by_key = {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row for row in rows}
    of_table: dict[str, Any] = {table: by_key}
    return unusable_of(Evidence(**of_table))


def unusable_of(evidence: Evidence) -> list[Unusable]:
    """What the invariants need and the evidence's rows lack."""
    return [Unusable(*found) for found in lacking(evidence)]


def unusable_in_ledger_row(row: Mapping[str, Any]) -> list[Unusable]:
    """What one row of the ledger lacks: what the invariants need, and what the consumer and the repairs do."""
    found = unusable_rows("ledger", [row])
    others = {name: isinstance(row.get(name), str) for name in ("claimed_by", "payload_hash")}
    others["updated"] = is_moment(row.get("updated"))
    others["result"] = row.get("status") != COMPLETE or bool(result_of(row))
    return found + [Unusable("ledger", row["message_id"], name) for name, usable in others.items() if not usable]


def stops_the_consumer(row: Mapping[str, Any]) -> list[Unusable]:
    """What of that makes every delivery of the row's request fail: an answer needs to be whole.

    A takeover writes anew whatever it does not look at; it adds to a count, and begins one that is not there.
    """
    needed = {"status", "lease_until", "payload_hash", "result"}
    if row.get("status") == COMPLETE:
        needed |= {"claimed_by", "consumption_count"} - row.keys()
    else:
        needed |= {"consumption_count"} & row.keys()
    return [found for found in unusable_in_ledger_row(row) if found.attribute in needed]


def unusable_in_delivery(line: Mapping[str, Any]) -> str | None:
    """The first attribute that a line of the delivery log lacks, as the audit in Spark judges it; None if it is sound."""
    ids = line.get("message_id"), line.get("sqs_message_id")
    usable = {
        "outcome": isinstance(line.get("outcome"), str) and line["outcome"] in _OUTCOMES,
        "finished": is_moment(line.get("finished")),
        "sent": is_moment(line.get("sent")),
        "message_id": _is_text(ids[0]) and not _is_reserved(ids[0]) and ids != (None, None),
        "sqs_message_id": _is_text(ids[1]),
        "consumption_count": line.get("consumption_count") is None or _is_whole(line["consumption_count"]),
        "claimed_by": _is_text(line.get("claimed_by")),
        "answer": _is_text(line.get("answer")),
    }
    return next((name for name, good in usable.items() if not good), None)


def is_moment(value: Any) -> bool:
    """Whether it is a time in epoch ms, up to the year 2100."""
    return _is_whole(value) and value <= LATEST_EPOCH_MS


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_reserved(message_id: Any) -> bool:
    return isinstance(message_id, str) and message_id.startswith((SLOT_PREFIX, FILE_PREFIX, UNIDENTIFIED_PREFIX))


def sentences(found: Sequence[Unusable], command: Callable[[str], str]) -> Iterator[str]:
    """What to tell a person: the first of them, how many more there are, and what to do (`command`: `Target.command`)."""
    for one in found[:SHOWN]:
        yield f"{str(one)[0].upper()}{str(one)[1:]}."
    if len(found) > SHOWN:
        yield f"... and {len(found) - SHOWN:,} more: see --json."
    rows = [one for one in found if one.where != DELIVERY_LOG]
    if rows:
        ledger = next((one.key for one in rows if one.where == "ledger"), None)
        forget = f" ({command(f'ledger forget {ledger}')})" if ledger else ""
        yield f"No consumer leaves such a row. Complete it by hand, or delete it{forget}."
    if len(rows) < len(found):
        yield "No consumer logs such a line. It is left out of everything that is said here."
