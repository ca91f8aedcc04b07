"""Spark carries blocks: the rows of a file as Arrow columns, under every subject that they name, in one block for each chunk.

A chunk has all rows of its subjects. A row of Spark has the number of the chunk, what the block is, and an Arrow stream. What
it is: a source's number, negative for old images, or one of the names below.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.files import blocks_of, place_of
from oneslot.audit.judged import OPEN_VERDICTS
from oneslot.audit.read.blocks import decoded, dicts, hashed, key_column, one, packed
from oneslot.audit.read.columns import Doubt, about, columns_of
from oneslot.audit.read.lines import Read, Reject, Window, read_lines, table_of
from oneslot.audit.read.source import JSON_OF, NUMBER_OF, Source
from oneslot.laws.form import FILE_PREFIX, UNIDENTIFIED_PREFIX, Problem, object_of

REJECTED, PREVIOUS, COUNTED, HASHES = 100, 101, 102, 103
"""What a block may be beside a source's rows: rejects, what an earlier audit kept, lines counted, and hashes of keys."""
CARRIED = "chunk int, source int, block binary"
CARRIED_SCHEMA = pa.schema([("chunk", pa.int32()), ("source", pa.int32()), ("block", pa.binary())])
REJECTS = pa.schema(
    dict.fromkeys(("key", "file", "attribute"), pa.string()) | dict.fromkeys(("line", "problem", "sign"), pa.int64())
)


class Piece(NamedTuple):
    """A file to read: the number of its source, or `PREVIOUS`. `layer` is that of earlier verdicts.

    `counts`: whether its malformed lines count here. `md5`: what its bytes must have, in Base64; None if it is not compared.
    """

    source: int
    path: str
    counts: bool = True
    layer: int = 0
    md5: str | None = None


@dataclass(frozen=True)
class ReadPlan:
    """What the tasks that read must know.

    Attributes:
        pieces: the files of each task.
        chunks: the number of chunks.
        continues: whether an earlier audit is continued. Without `wanted` the keys' hashes are read, and no earlier row.
        wanted: the sorted hashes of the keys of which earlier rows are judged again.
    """

    consumer: AuditConsumer
    pieces: tuple[tuple[Piece, ...], ...]
    chunks: int
    window: Window
    continues: bool = False
    wanted: Any = None


def read_pieces(batches: Iterable[pa.RecordBatch], reading: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of each task's files."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            reader = BlockReader(reading)
            for piece in reading.pieces[task]:
                yield from map(carried_rows, reader.read(piece))
            counts = {"lines": reader.lines, "doubted": reader.doubted, "rejected": {"lines": reader.rejected}}
            yield carried_rows([(0, COUNTED, json.dumps(counts).encode())])
    pa.default_memory_pool().release_unused()


Block = tuple[int, int, bytes]


def carried_rows(blocks: Sequence[Block]) -> pa.RecordBatch:
    """Return blocks as rows of Spark."""
    columns = zip(*blocks, strict=True) if blocks else ((), (), ())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, CARRIED_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=CARRIED_SCHEMA)


@dataclass
class BlockReader:
    """Reads files into blocks. `lines` counts those of each source, `doubted` the blocks that were read line by line."""

    reading: ReadPlan
    lines: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    doubted: Counter[str] = field(default_factory=Counter)

    def read(self, piece: Piece) -> Iterator[list[Block]]:
        """Yield the blocks of a file, some at a time."""
        if piece.source == PREVIOUS:
            yield self._earlier(piece)
            return
        source, first = self.reading.consumer.model.source(piece.source), 1
        for block in blocks_of(piece.path, piece.md5):
            yield self._block(source, piece, first, block)
            first += block.count(b"\n")

    def _block(self, source: Source, piece: Piece, first: int, block: bytes) -> list[Block]:
        reading = self.reading
        changes = source.table is not None and reading.window.start is not None
        if not changes:
            try:
                made = self.by_columns(source, block)
            except (ValueError, pa.ArrowException) as doubt:
                self.doubted[f"{source.name}: {type(doubt).__name__}"] += 1
            else:
                self.lines[source.name] += block.count(b"\n")
                return made
        return self.by_lines(source, piece, first, block)

    def by_columns(self, source: Source, block: bytes) -> list[Block]:
        """Return the rows of a block without doubt. Raises ValueError for another."""
        return self._carry(source, 1, columns_of(source, block), None)

    def by_lines(self, source: Source, piece: Piece, first: int, block: bytes) -> list[Block]:
        """Return the rows and rejects of a block, whose first line has this number."""
        rows: dict[int, list[Read]] = {1: [], -1: []}
        rejects: list[Reject] = []
        self.lines[source.name] += sum(bool(line.strip(b" \t\r")) for line in block.split(b"\n"))
        ask = self.reading.consumer.problem_of if source.table and source.table.asks else None
        for each in read_lines(source, block, first, self.reading.window):
            if isinstance(each, Read) and ask and (name := ask(source, each.values)) is not None:
                subjects = tuple(source.named(each.values))
                rejects.append(Reject(each.line, Problem.MISSING_ATTRIBUTE, name, each.sign, subjects))
            elif isinstance(each, Read):
                rows[each.sign].append(each)
            else:
                rejects.append(each)
        made = []
        for sign, several in rows.items():
            if several:
                made += self._carry(source, sign, table_of(source, several), several)
        return made + (self._rejected(piece.path, rejects) if piece.counts and rejects else [])

    def _rejected(self, path: str, rejects: Sequence[Reject]) -> list[Block]:
        """Return rejects under their file, and under the subjects that they can be read to name."""
        rows: list[tuple[Any, ...]] = []
        self.rejected += sum(each.sign for each in rejects)
        for each in rejects:
            # A rejected old image is taken back from no file, because the file that counted it is not known.
            file = f"{FILE_PREFIX}{path if each.sign > 0 else ''}"
            rows.append((file, path, each.attribute, each.line, int(each.problem), each.sign))
            rows += [(key, None, each.attribute, None, int(each.problem), each.sign) for key in each.subjects]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), REJECTS.types, strict=True)]
        table = pa.Table.from_arrays(columns, schema=REJECTS)
        return self._split(REJECTED, table.drop_columns(["key"]), columns[0], np.arange(len(rows)))

    def _carry(self, source: Source, sign: int, table: pa.Table, rows: Sequence[Read] | None) -> list[Block]:
        """Return rows under their subjects. Raises ValueError where a function of the consumer finds one out of form."""
        if source.name == "deliveries":
            start, end = self.reading.window
            finished = table["finished"]
            inside = pc.less(finished, end)
            table = table.filter(inside if start is None else pc.and_(inside, pc.greater_equal(finished, start)))
        if source.name == "accepted":
            copies = pc.fill_null(table["copies"], 1)
            table = table.set_column(table.column_names.index("copies"), "copies", copies)
        keys, at = self._subjects(source, table, rows)
        kept = [
            name for name in table.column_names if name.removesuffix(NUMBER_OF).removesuffix(JSON_OF) in source.kept
        ]
        return self._split(sign * source.number, table.select(kept), keys, at)

    def _subjects(self, source: Source, table: pa.Table, rows: Sequence[Read] | None) -> tuple[Any, Any]:
        """Return the key of each subject that rows name, and the numbers of these rows."""
        if source.table is None:
            key = one(table["message_id"])
            if source.form.one_of:
                unidentified = pc.binary_join_element_wise(UNIDENTIFIED_PREFIX, one(table[source.form.one_of[-1]]), "")
                key = pc.coalesce(key, unidentified)
            return key, np.arange(len(key))
        if source.table.asks or any(name.endswith(JSON_OF) for name in table.column_names):
            consumer = self.reading.consumer
            each = [decoded(row) for row in dicts(table)]
            if rows is None and source.table.asks and any(consumer.problem_of(source, row) for row in each):
                raise Doubt("a row out of form")
            named = [consumer.subjects_of(source, row) for row in each]
            keys = [key for several in named for key in several]
            return pa.array(keys, pa.string()), np.repeat(np.arange(len(named)), [*map(len, named)])
        columns = [key_column(table, parts) for parts in source.table.subjects]
        found, places = [], []
        for number, column in enumerate(columns):
            once = column
            for before in columns[:number]:  # a row travels once to a subject that it names twice
                once = pc.if_else(pc.fill_null(pc.equal(column, before), False), pa.scalar(None, pa.string()), once)
            found.append(once)
            places.append(np.arange(len(once)))
        outcomes = self.reading.consumer.declaration.schema.outcomes.values()
        some = about(source, table, [outcome.name for outcome in outcomes if outcome.names])
        others = self._others(table, some)
        found.append(pa.array(others, pa.string()))
        places.append(some)
        keys, at = pa.concat_arrays(found), np.concatenate(places)
        if keys.null_count:
            at = at[keys.is_valid().to_numpy(zero_copy_only=False)]
            keys = keys.drop_null()
        return keys, at

    def _others(self, table: pa.Table, some: Any) -> list[str | None]:
        """Return the other request that each of these ledger rows' answers is about."""
        if not len(some):
            return []
        schema, chosen = self.reading.consumer.declaration.schema, pa.array(some)
        texts, own = table["result"].take(chosen).to_pylist(), table["message_id"].take(chosen).to_pylist()
        named = (schema.about(object_of(text) or {}) for text in texts)
        return [None if other == key else other for other, key in zip(named, own, strict=True)]

    def _split(self, number: int, table: pa.Table, keys: Any, at: Any, hashes: Any = None) -> list[Block]:
        """Return the rows `at`, each under its key, as a block for each chunk."""
        if not len(at):
            return []
        chunks = self.reading.chunks
        hashes = hashed(keys) if hashes is None else hashes
        if self.reading.continues and self.reading.wanted is None:
            return [(-1, HASHES, np.unique(hashes).tobytes())]
        part = (hashes % np.uint64(chunks)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        chosen = table.take(pa.array(at[order])).columns if table.num_columns else []
        arrays = [keys.take(pa.array(order)), *(one(column) for column in chosen)]
        rows = pa.Table.from_arrays(arrays, names=["key", *table.column_names])
        bounds = np.searchsorted(part[order], np.arange(chunks + 1))
        spans = zip(range(chunks), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        return [(chunk, number, packed(rows.slice(low, high - low))) for chunk, low, high in spans if low < high]

    def _earlier(self, piece: Piece) -> list[Block]:
        """Return an earlier audit's rows of the wanted keys; before these are known, the hashes of those to judge again."""
        system, path = place_of(piece.path)
        file = pq.ParquetFile(path, filesystem=system)
        if self.reading.wanted is None:
            rows = file.read(["hash", "verdict", "violations", "dead_letters", "waiting"])
            again = pc.or_(pc.is_in(rows["verdict"], pa.array(OPEN_VERDICTS)), pc.not_equal(rows["violations"], ""))
            for name in ("dead_letters", "waiting"):
                again = pc.or_(again, pc.fill_null(pc.greater(rows[name], 0), False))
            return [(-1, HASHES, rows["hash"].filter(again).to_numpy().view(np.uint64).tobytes())]
        at = np.flatnonzero(np.isin(file.read(["hash"])["hash"].to_numpy().view(np.uint64), self.reading.wanted))
        if not len(at):
            return []
        rows = file.read().take(pa.array(at)).combine_chunks()
        keys, hashes = one(rows["key"]), rows["hash"].to_numpy().view(np.uint64)
        layer = pa.array(np.full(len(at), piece.layer))
        return self._split(
            PREVIOUS, rows.drop_columns(["key", "hash"]).append_column("layer", layer), keys, np.arange(len(at)), hashes
        )
