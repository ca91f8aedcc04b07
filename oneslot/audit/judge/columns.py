"""The carried rows of a chunk as columns, with which `oneslot.audit.judge.clean` looks at all subjects at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from oneslot.audit.read.carry import ExportedTable
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.schema import Schema
from oneslot.laws.traces import LEDGER

Mask = Any
Keys = Any
"""Arrays: a truth value for each subject, and numbers of subjects."""
RESULT = "result"
TEXT, NUMBER = pa.string(), pa.int64()
LISTS = ("dead-letters", "dropped", "waiting")
LINES: Mapping[str, Mapping[str, pa.DataType]] = {
    "deliveries": {
        **dict.fromkeys(("outcome", "answer"), TEXT),
        **dict.fromkeys(("consumption_count", "sent", "finished"), NUMBER),
    },
    "accepted": dict.fromkeys(("sent", "copies"), NUMBER),
    **{name: {} for name in LISTS},
}
"""What is read of each line of a log or a list."""
FLAT = r"^\{[^{}\n]*\}$"
"""A result of one line without inner objects. Others could move what the parser reads to another row."""
NEVER = int(np.iinfo(np.int64).max)


class CarriedColumns:
    """The carried rows of a chunk as columns. `count` has the rows of each subject, by source."""

    def __init__(
        self, table: pa.Table, exports: Mapping[str, ExportedTable], schema: Schema, results: Sequence[str]
    ) -> None:
        self.whole = table
        encoded = table["key"].combine_chunks().dictionary_encode()
        self.names = encoded.dictionary
        self.subjects = encoded.indices.to_numpy()
        self.texts: dict[str, pa.Array] = {}
        self.rows: dict[str, pa.Table] = {}
        self.subject_of: dict[str, Keys] = {}
        self.count: dict[str, Any] = {}
        self._row_of: dict[str, Any] = {}
        tables = {
            name: {**dict.fromkeys(export.texts, TEXT), **dict.fromkeys(export.numbers, NUMBER)}
            for name, export in exports.items()
        }
        place, texts = table["place"].to_numpy(), table["row"].combine_chunks()
        for number, (source, columns) in enumerate({**tables, **LINES}.items(), 1):
            at = np.flatnonzero(place == number)
            self._read(source, texts.take(pa.array(at)), self.subjects[at], columns)
        self.own = {name: self._own(name, export.key) for name, export in exports.items()}
        self.odd = (self.counted(self.subjects[place < 1]) > 0) | (sum(self.count[name] for name in LISTS) > 0)
        recorded = self.rows[LEDGER][RESULT].combine_chunks()
        flat = np.flatnonzero(sure(pc.match_substring_regex(recorded, FLAT)))
        own = (outcome.request for outcome in schema.outcomes.values() if outcome.request)
        columns = dict.fromkeys(("outcome", *own, *results), TEXT)
        self._read(RESULT, recorded.take(pa.array(flat)), self.subject_of[LEDGER][flat], columns)

    def _read(self, source: str, texts: pa.Array, keys: Keys, columns: Mapping[str, pa.DataType]) -> None:
        self.texts[source], self.subject_of[source], self.count[source] = texts, keys, self.counted(keys)
        self._row_of[source] = np.full(len(self.names), -1)
        self._row_of[source][keys] = np.arange(len(keys))
        schema = pa.schema([*columns.items()])
        options = ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
        wanted = len(texts) and columns
        found = (
            read_json(pa.BufferReader(lines), ReadOptions(use_threads=False), options)
            if wanted
            else schema.empty_table()
        )
        if wanted and found.num_rows != len(texts):
            raise ValueError(source)
        self.rows[source] = found

    def _own(self, source: str, key: Sequence[str]) -> Any:
        """Return how many rows have the subject's key. The laws judge a chunk whose exports hold a row twice."""
        parts = [self.rows[source][name].combine_chunks() for name in key]
        joined = pc.binary_join_element_wise(*parts, "/")
        keys = pc.binary_join_element_wise(ROW_PREFIX, joined, "") if len(parts) > 1 else joined
        subjects = self.subject_of[source]
        found = self.counted(subjects[same(keys, self.named(subjects))])
        if (found > 1).any():
            raise ValueError(source)
        return found

    def counted(self, keys: Keys) -> Any:
        """Return how often each subject is among these."""
        return np.bincount(keys, minlength=len(self.names))

    def least(self, keys: Keys, values: Any, start: int = NEVER) -> Any:
        """Return the least of `start` and the values of each subject."""
        found = np.full(len(self.names), start)
        np.minimum.at(found, keys, values)
        return found

    def named(self, keys: Keys) -> pa.Array:
        """Return the keys of subjects as texts."""
        return self.names.take(pa.array(keys))

    def of(self, source: str, name: str, keys: Keys) -> pa.Array:
        """Return an attribute of the subjects' rows, where each has one at most; null without one."""
        found = self._row_of[source][keys]
        return self.rows[source][name].combine_chunks().take(pa.array(found, mask=found < 0))

    def text(self, source: str, keys: Keys) -> list[str]:
        """Return the subjects' rows as they were carried."""
        found: list[str] = self.texts[source].take(pa.array(self._row_of[source][keys])).to_pylist()
        return found


@dataclass(frozen=True)
class Plain:
    """When a consumer's own laws say nothing.

    Attributes:
        results: the attributes of a recorded result that `silent` reads, all texts.
        silent: returns the subjects of which neither an own law nor I12 speaks, and whose effect no other request undoes.
    """

    results: tuple[str, ...]
    silent: Callable[[CarriedColumns], Mask]


def sure(values: pa.Array) -> Mask:
    """Return where a column is true, and not null."""
    return pc.fill_null(values, False).to_numpy(zero_copy_only=False)


def same(one: pa.Array, other: Any) -> Mask:
    """Return where a column has a value, and the same as another column or as this value."""
    return sure(pc.equal(one, other))


def lacks(column: pa.Array) -> Mask:
    """Return where a column has no value."""
    return pc.is_null(column).to_numpy(zero_copy_only=False)
