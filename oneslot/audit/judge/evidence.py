"""The evidence of a chunk, as the laws read it, from its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oneslot.audit.read.blocks import decoded, dicts, key_column
from oneslot.audit.read.source import ExportedTable
from oneslot.laws.evidence import Evidence
from oneslot.laws.groups import LINE_CARRIED
from oneslot.laws.schema import Row, Schema
from oneslot.laws.traces import LEDGER

LINES_KEPT = 256
"""Above this number the lines of one request are folded."""
CLAIM = ("key", "outcome", "answer", "claimed_by")
"""What lines that are folded into one have in common."""
FOLDED = {
    "copies_sum": "copies",
    "sent_min": "sent",
    "first_finished_min": "first_finished",
    "finished_max": "finished",
    "consumption_count_max": "consumption_count",
}
"""What a folded line says of its copies, by Arrow's name."""
OF_FOLDED = pa.schema([("copies", pa.int64()), ("first_finished", pa.int64())])


def filled(moment: Evidence, schema: Schema, sent: Mapping[str, int], waiting: set[str], **rows: Any) -> Evidence:
    """Return the moment's evidence with the rows of a chunk. A source that the history lacks stays None."""
    requests = None if moment.requests is None else {*sent}
    known = None if moment.waiting is None else waiting
    return replace(moment, schema=schema, requests=requests, sent=sent, waiting=known, **rows)


def evidence_of(
    tables: Mapping[str, pa.Table], exports: Mapping[str, ExportedTable], schema: Schema, moment: Evidence
) -> Evidence:
    """Return the rows and lines of a chunk as evidence. Raises ValueError where an export has a row in two versions."""
    rows = {name: _rows(tables[name], export) for name, export in exports.items()}
    names = {name: {*tables[name]["key"].to_pylist()} for name in ("dead-letters", "dropped", "waiting")}
    sent = tables["accepted"].group_by("key").aggregate([("sent", "min")])
    lines, several = folded(tables["deliveries"])
    deliveries = [*several, *dicts(lines)]
    for key, line in zip((*(line.pop("key") for line in several), *lines["key"].to_pylist()), deliveries, strict=True):
        line["message_id"] = key
    return filled(
        moment,
        schema,
        dict(zip(sent["key"].to_pylist(), sent["sent_min"].to_pylist(), strict=True)),
        names["waiting"],
        ledger={row["message_id"]: row for row in rows.pop(LEDGER)},
        tables={name: schema.tables[name].by_key(several) for name, several in rows.items()},
        quarantined=names["dead-letters"],
        dropped=names["dropped"],
        deliveries=deliveries,
    )


def _rows(table: pa.Table, export: ExportedTable) -> list[Row]:
    """Return each row once, which travels under every subject that it names."""
    keys = key_column(table, export.key)
    _, first = np.unique(keys.dictionary_encode().indices.to_numpy(zero_copy_only=False), return_index=True)
    names = [name for name in table.column_names if name != "key"]
    if keys.null_count or table.group_by(names).aggregate([]).num_rows != len(first):
        raise ValueError(export.counted)
    return [decoded(row) for row in dicts(table.take(pa.array(first)))]


def folded(lines: pa.Table, earlier: Sequence[Row] = ()) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the lines of usual requests as laws read them, and a folded one for each claim of those with very many.

    A producer in a loop causes millions of deliveries of one id, which differ in their times only. `earlier` are lines that an
    earlier audit kept, of which some are folded.
    """
    lines = lines.select([name for name in lines.column_names if name == "key" or name in LINE_CARRIED])
    if earlier:
        names = ("key", *LINE_CARRIED[1:], *FOLDED.values())
        columns = {name: [line.get(name) for line in earlier] for name in names}
        lines = pa.concat_tables([lines, pa.table(columns)], promote_options="default")
    counts = pc.value_counts(lines["key"])
    many = counts.field("values").filter(pc.greater(counts.field("counts"), LINES_KEPT))
    if not len(many):
        return lines, []
    of_many = pc.is_in(lines["key"], many)
    chosen = pa.concat_tables([lines.filter(of_many), OF_FOLDED.empty_table()], promote_options="default")
    for name, usual in (("copies", 1), ("first_finished", chosen["finished"])):
        column = pc.coalesce(chosen[name], usual)
        chosen = chosen.set_column(chosen.column_names.index(name), name, column)
    sums = [tuple(name.rsplit("_", 1)) for name in FOLDED]
    found = chosen.group_by([*CLAIM], use_threads=False).aggregate(sums)
    named = found.rename_columns([FOLDED.get(name, name) for name in found.column_names])
    rows = [{name: value for name, value in row.items() if value is not None} for row in named.to_pylist()]
    return lines.filter(pc.invert(of_many)), rows
