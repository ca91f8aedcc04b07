"""A subject as the audit judges it, the columns of its verdict, and the sums of operations tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from oneslot.audit.vocabulary import SubjectKind
from oneslot.laws.form import FILE_PREFIX, ROW_PREFIX
from oneslot.laws.schema import Row, text_of
from oneslot.runtime.values import from_attribute

NOT_TEXT = "*"
"""The member of a carried row with the attributes that are neither text nor a declared number, as DynamoDB's JSON."""
REJECTED, PREVIOUS = 100, 101
"""The places of a reject, and of what an earlier audit kept of a group."""
ONCE_IN_EXPORT = "S1"
COUNTS = (
    "ledger_complete",
    "ledger_outcome",
    "ledger_consumptions",
    "ledger_resting_since",
    "accepted_copies",
    "deliveries",
    "deliveries_done",
    "deliveries_duplicate",
    "delivered_outcome",
    "consumptions_seen",
    "dead_letters",
    "waiting",
    "rejected",
)
"""The figures of verdicts whose null stands for 0, beside the number of rows of each export."""
TIMES = ("accepted_sent", "quarantined_at", "delivery_sent", "first_done", "last_finished", "dropped_at")
TEXTS = ("key", "subject", "verdict", "violations")
ROWS_AT_ONCE = 10_000  # of verdicts, which leave before the rest of the chunk is judged
OF_REQUEST = (SubjectKind.REQUEST, SubjectKind.UNIDENTIFIED)
NO_REQUEST = (ROW_PREFIX, FILE_PREFIX)
KEPT = ("cells", "evidence")
"""Text columns: the sums of a chunk's rows, in one of them, and what the next audit needs of a row."""


def row_key(key: tuple[Any, ...]) -> str:
    """Return the subject's key of a row with a key of several attributes."""
    return f"{ROW_PREFIX}{text_of(key)}"


def decoded(row: Row) -> Row:
    """Return a carried row with Python's values, as DynamoDB's clients return them."""
    others = row.get(NOT_TEXT)
    if others is None:
        return row
    plain = {name: value for name, value in row.items() if name != NOT_TEXT}
    return {**plain, **{name: from_attribute(_attribute(value)) for name, value in others.items()}}


def _attribute(attribute: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an attribute with its list or map, which was carried as text."""
    ((kind, value),) = attribute.items()
    return {kind: json.loads(value) if kind in ("L", "M") else value}


class Judged(NamedTuple):
    """A subject with its verdict and figures, for the operations tables.

    `rows`: those whose key it is, by table. `recorded`: the answer that its row in the ledger keeps.
    """

    key: str
    subject: str
    verdict: str | None
    violations: str
    figures: Mapping[str, int | None]
    rows: Mapping[str, Row]
    recorded: str | None

    @property
    def is_request(self) -> bool:
        """Whether it is a request, with an id or without."""
        return self.subject in OF_REQUEST

    @property
    def sent(self) -> int | None:
        """When a request was sent, epoch ms: SQS's time of the first copy, else the producer's."""
        logged = self.figures["delivery_sent"]
        return self.figures["accepted_sent"] if logged is None else logged


Sums = dict[tuple[Any, ...], list[int]]
"""The figures of rows of operations tables, by the number of the table and the dimensions."""


def summed(counts: Mapping[Any, int]) -> str:
    """Return the sums of cells as JSON, without those that are all zeros. Most cells are equal, and counted before."""
    sums: Sums = {}
    for (number, dimensions, figures), count in counts.items():
        add_cell(sums, number, dimensions, figures, count)
    rows = [{"t": number, "d": dims, "f": sums[number, *dims]} for number, *dims in sorted(sums)]
    return json.dumps([row for row in rows if any(row["f"])], separators=(",", ":"))


def add_cell(sums: Sums, number: int, dimensions: Iterable[Any], figures: Iterable[int | None], count: int) -> None:
    """Add a cell to the sums, `count` times."""
    added = [count * (figure or 0) for figure in figures]
    found = sums.setdefault((number, *dimensions), [0] * len(added))
    found[:] = [one + other for one, other in zip(found, added, strict=True)]
