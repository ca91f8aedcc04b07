"""Subjects as the audit judges them: the columns of their verdicts, for operations tables and for the files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oneslot.laws.form import FILE_PREFIX, ROW_PREFIX
from oneslot.laws.request import RequestVerdict


class SubjectKind(StrEnum):
    """The kind of thing that a row of the verdicts is about. A consumer's `Model` names two more."""

    REQUEST = "request"
    UNIDENTIFIED = "unidentified"  # a delivery whose message carries no id
    FILE = "file"  # a file with rejected lines
    GONE = "gone"  # all that spoke of the key has been deleted since an earlier audit


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
OF_REQUEST = (SubjectKind.REQUEST, SubjectKind.UNIDENTIFIED)
NO_REQUEST = (ROW_PREFIX, FILE_PREFIX)
EVIDENCE = "evidence"
"""The text column with what the next audit needs of a subject."""
OPEN_VERDICTS = tuple(
    map(str, (RequestVerdict.IN_FLIGHT, RequestVerdict.STUCK, RequestVerdict.LOST, RequestVerdict.QUARANTINED))
)
"""Verdicts that are judged again although no source of the subject changed."""


class Subjects:
    """Judged subjects as columns: those of verdicts, and `table.attribute` of the row whose key is the subject."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column; null where a subject has no such row."""
        column = self.table[name]
        return column.combine_chunks()

    def figure(self, name: str) -> Any:
        """Return a figure, 0 where it is null."""
        return pc.fill_null(self[name], 0).to_numpy()

    def among(self, name: str, words: Collection[str]) -> Any:
        """Return where a text is one of these words."""
        return pc.is_in(self[name], pa.array([*map(str, words)], pa.string())).to_numpy(zero_copy_only=False)

    def where(self, mask: Any) -> Subjects:
        """Return the subjects for which this is true."""
        return self if mask.all() else Subjects(self.table.filter(pa.array(mask)))

    def where_given(self, name: str) -> Subjects:
        """Return the subjects that have a value in a column."""
        return self.where(pc.is_valid(self[name]).to_numpy(zero_copy_only=False))

    @cached_property
    def sent_requests(self) -> Subjects:
        """The requests, with an id or without, of which a source says when they were sent."""
        known = pc.or_(pc.is_valid(self["delivery_sent"]), pc.is_valid(self["accepted_sent"]))
        return self.where(self.among("subject", OF_REQUEST) & known.to_numpy(zero_copy_only=False))

    @cached_property
    def sent(self) -> Any:
        """When each was sent, epoch ms: SQS's time of the first copy, else the producer's."""
        return pc.fill_null(pc.coalesce(self["delivery_sent"], self["accepted_sent"]), 0).to_numpy()


def with_own(verdicts: pa.Table, own: Mapping[str, pa.Array]) -> Subjects:
    """Return judged subjects with the attributes of their own rows."""
    for name, column in own.items():
        verdicts = verdicts.append_column(name, column)
    return Subjects(verdicts)
