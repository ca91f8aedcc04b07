"""The rows of a chunk as columns, with which `oneslot.audit.judge.clean` looks at all subjects at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from oneslot.audit.read.blocks import key_column, one
from oneslot.audit.read.source import TEXT, ExportedTable
from oneslot.declaration.declaration import Declaration
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.groups import breaches
from oneslot.laws.ledger import EFFECT_ROWS, LEDGER_LAWS
from oneslot.laws.schema import Schema, text_of
from oneslot.laws.traces import LEDGER

Mask = Any
Keys = Any
"""Arrays: a truth value for each subject, and numbers of subjects."""
RESULT, ABOUT = "result", "about"
"""Beside the sources: the result that a subject's own ledger row records, and other requests' rows whose answer is about it."""
LISTS = ("dead-letters", "dropped", "waiting")
FLAT = r"^\{[^{}\n]*\}$"
"""A result of one line without inner objects. Others could move what the parser reads to another row."""
LONGEST_RESULT = 4_300
"""Bytes of a result that is looked at: Python reads no number of more digits."""
NEVER = int(np.iinfo(np.int64).max)


class CarriedColumns:
    """The carried rows of a chunk as columns, by source. `count` has the rows of each subject, by source."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        odd: Sequence[pa.Table],
        exports: Mapping[str, ExportedTable],
        schema: Schema,
        results: Sequence[str],
    ) -> None:
        """Take the rows by source. `odd` are other rows, whose subjects are left to the laws."""
        self.tables = tables
        several = [one(table["key"]) for table in (*tables.values(), *odd)]
        encoded = one(pa.chunked_array(several, TEXT)).dictionary_encode()
        self.names = encoded.dictionary
        subjects = encoded.indices.to_numpy()
        ends = np.cumsum([len(each) for each in several])
        self.rows: dict[str, pa.Table] = {}
        self.subject_of: dict[str, Keys] = {}
        self.count: dict[str, Any] = {}
        self._row_of: dict[str, Any] = {}
        self.keys_of: dict[str, Keys] = {}
        for (source, table), end in zip(tables.items(), ends, strict=False):
            self.keys_of[source] = keys = subjects[end - len(table) : end]
            self._put(source, table, keys)
        mine = same(one(tables[LEDGER]["message_id"]), self.named(self.keys_of[LEDGER]))
        for source, chosen in ((LEDGER, mine), (ABOUT, ~mine)):
            self._put(source, tables[LEDGER].filter(pa.array(chosen)), self.keys_of[LEDGER][chosen])
        self.own = {name: self._own(name, export.key) for name, export in exports.items()}
        listed = sum(self.count[name] for name in LISTS)
        self.odd = (self.counted(subjects[int(ends[len(tables) - 1]) :]) > 0) | (listed > 0)
        recorded = one(self.rows[LEDGER][RESULT])
        short = pc.less_equal(pc.binary_length(recorded), LONGEST_RESULT)
        flat = np.flatnonzero(sure(pc.and_(short, pc.match_substring_regex(recorded, FLAT))))
        ids = (name for outcome in schema.outcomes.values() for name in (outcome.request, outcome.names) if name)
        columns = dict.fromkeys(("outcome", *ids, *results), TEXT)
        self._put(RESULT, _objects(recorded.take(pa.array(flat)), columns), self.subject_of[LEDGER][flat])

    def _put(self, source: str, table: pa.Table, keys: Keys) -> None:
        self.rows[source], self.subject_of[source], self.count[source] = table, keys, self.counted(keys)
        self._row_of[source] = np.full(len(self.names), -1)
        self._row_of[source][keys] = np.arange(len(keys))

    def _own(self, source: str, key: Sequence[str]) -> Any:
        """Return how many rows have the subject's key. The laws judge a chunk whose exports hold a row twice."""
        subjects = self.subject_of[source]
        found = self.counted(subjects[same(key_column(self.rows[source], key), self.named(subjects))])
        if (found > 1).any():
            raise ValueError(source)
        return found

    def counted(self, keys: Keys) -> Any:
        """Return how often each subject is among these."""
        return np.bincount(keys, minlength=len(self.names))

    def places(self, texts: Sequence[str]) -> Keys:
        """Return the subjects with these keys, where the chunk has them."""
        return pc.index_in(pa.array(texts, TEXT), self.names).drop_null().to_numpy()

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
        return one(self.rows[source][name]).take(pa.array(found, mask=found < 0))


def _objects(texts: pa.Array, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return JSON objects as columns. Raises ValueError where one is not as expected."""
    schema = pa.schema([*columns.items()])
    if not len(texts):
        return schema.empty_table()
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
    options = ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    found = read_json(pa.BufferReader(lines), ReadOptions(use_threads=False, block_size=len(lines) + 1), options)
    if found.num_rows != len(texts):
        raise ValueError(RESULT)
    return found


@dataclass(frozen=True)
class Plain:
    """When a consumer's own laws say nothing.

    Attributes:
        results: the attributes of a recorded result that `silent` reads, all texts.
        silent: returns the subjects of which neither an own law nor I12 speaks, and those of them whose effect another
            request undid. It gets the chunk's columns, and a function that makes evidence of them.
        deed: the verdict on these.
    """

    results: tuple[str, ...]
    silent: Callable[[CarriedColumns, Callable[[], Evidence]], tuple[Mask, Mask]]
    deed: str = ""


def sure(values: pa.Array) -> Mask:
    """Return where a column is true, and not null."""
    return pc.fill_null(values, False).to_numpy(zero_copy_only=False)


def same(one: pa.Array, other: Any) -> Mask:
    """Return where a column has a value, and the same as another column or as this value."""
    return sure(pc.equal(one, other))


def lacks(column: pa.Array) -> Mask:
    """Return where a column has no value."""
    return pc.is_null(column).to_numpy(zero_copy_only=False)


def plain_of(declaration: Declaration) -> Plain | None:
    """Return it for a declared consumer. None if one of its own laws judges each request, which takes as long as all laws."""
    own = [law for law in declaration.judged if law not in (*LEDGER_LAWS, EFFECT_ROWS)]
    return None if any(law.of_request for law in own) else Plain((), partial(silent, laws=own))


def silent(carried: CarriedColumns, evidence_of: Callable[[], Evidence], laws: Sequence[Law]) -> tuple[Mask, Mask]:
    """Return the subjects that no own law names, and whose rows are those of their answer. Of what undoes, laws judge."""
    evidence, every = evidence_of(), np.arange(len(carried.names))
    doubtful = [breach.subject for law in laws for breach in breaches(law, evidence)]
    named: dict[str, list[str]] = {table.name: [] for table in evidence.schema.effect_tables}
    for table, key, _, effect in evidence.effects():
        named[table.name].append(effect.request)
        if effect.undoes or not effect.request:
            doubtful.append(text_of(key))
    found = np.ones(len(every), bool)
    found[carried.places([*doubtful, *(f"{ROW_PREFIX}{each}" for each in doubtful)])] = False
    kept = carried.of(RESULT, "outcome", every)
    for table in evidence.schema.effect_tables:
        count = carried.counted(carried.places(named[table.name]))
        if table.rows is not None and table.outcomes:
            found &= count == table.rows * sure(pc.is_in(kept, pa.array(table.outcomes)))
        elif table.rows is not None:
            found &= count <= table.rows
        found &= (count == 0) | (carried.count[LEDGER] == 1)
    return found, np.zeros(len(every), bool)
