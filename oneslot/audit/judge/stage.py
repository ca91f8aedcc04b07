"""The tasks that judge: the blocks of a chunk become verdicts, by the quick look and by the laws.

A chunk has every row that names one of its subjects, so the laws of `oneslot check` find the same breaches here. A breach whose
subject belongs to another chunk is found there, and dropped here.
"""

import gc
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge.clean import find_clean
from oneslot.audit.judge.laws import Chunk
from oneslot.audit.judged import EVIDENCE, SubjectKind, Subjects, with_own
from oneslot.audit.operations import ANSWERS, SECONDS, OperationsTable
from oneslot.audit.read.blocks import hashed, one, packed, unpacked
from oneslot.audit.read.carry import COUNTED, PREVIOUS, REJECTED, Block, carried_rows
from oneslot.audit.write.tables import part_name, write_parquet
from oneslot.laws.evidence import Evidence
from oneslot.laws.request import UNSOUND, RequestVerdict

EVENTFUL, LINES_OF, FINDINGS, EXTRA = 200, 201, 202, 300
"""What a judged block may be beside a table's rows; from `EXTRA` on those of the report's own tables."""
REPORT_TABLES = (SECONDS, ANSWERS)
WRONG_VERDICTS = tuple(map(str, (*UNSOUND, RequestVerdict.QUARANTINED)))
"""Verdicts of subjects that findings or repair lists may name."""
LIVES = 8
ATTEMPTS_SHOWN = 200
"""The messages whose attempts the report shows. A producer in a loop causes thousands, whose marks would hide each other."""
TAKEOVER_WEIGHT = 3
"""A takeover is more eventful than one more delivery."""
LISTED_REJECTS = 1_000
LONGEST_SECONDS_MS = 4 * 3_600_000 + 900_000
"""The longest time that the report shows by seconds or minutes."""


@dataclass(frozen=True)
class Judging:
    """What the tasks that judge must know.

    Attributes:
        moment: evidence without rows: the time, and which sources are known. `whole`: whether the exports are full.
        folder: of the verdicts. `run` is in the name of each file, so that a task of a killed audit replaces none.
        parts: the number of parts of the operations tables.
        tables: whether all operations tables are wanted, rather than the totals alone.
        keeps: whether to keep what the next audit needs.
    """

    consumer: AuditConsumer
    moment: Evidence
    folder: str
    run: str
    parts: int = 1
    tables: bool = True
    keeps: bool = False
    whole: bool = True

    @property
    def wanted(self) -> Sequence[OperationsTable]:
        """The tables that are summed."""
        return self.consumer.model.tables if self.tables else self.consumer.model.tables[:1]

    def of_part(self, table: OperationsTable, rows: pa.Table, part: int) -> pa.Array:
        """Return which rows of a table belong to a part: those whose first dimension has its number. The totals have one."""
        if table is self.wanted[0]:
            return pa.array(np.full(len(rows), part == 0))
        first = pc.cast(one(rows[table.dimensions[0]]), pa.string())
        return pa.array(hashed(first) % np.uint64(self.parts) == part)


def judge_chunk(batches: Iterable[pa.RecordBatch], judging: Judging) -> Iterator[pa.RecordBatch]:
    """Write the verdicts of a task's blocks, sorted by key. Yield the sums of the tables, and what the report shows."""
    # A chunk has millions of objects and no cycles, and the search for some takes a quarter of the time.
    gc.disable()
    try:
        found: dict[int, list[pa.Table]] = defaultdict(list)
        answers: list[Block] = []
        number = 0
        for batch in batches:
            for chunk, source, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = chunk
                if source == COUNTED:
                    answers.append((0, COUNTED, block))
                else:
                    found[source].append(unpacked(block))
        if found:
            verdicts, more = judged(found, judging)
            answers += more
            hashes = pa.array(hashed(one(verdicts["key"])).view(np.int64))
            name = part_name(number).replace(".", f"-{judging.run}.", 1)
            write_parquet(f"{judging.folder}/{name}", verdicts.add_column(0, "hash", hashes))
        yield carried_rows(answers)
    finally:
        gc.enable()
    # Spark keeps an idle worker for a minute, beside the next stage.
    pa.default_memory_pool().release_unused()


def judged(found: dict[int, list[pa.Table]], judging: Judging) -> tuple[pa.Table, list[Block]]:
    """Return the verdicts on the rows of a chunk, by what they are, sorted by key; and (part, what, block) of all else."""
    model, blocks = judging.consumer.model, list[Block]()
    tables = {}
    for source in model.all_sources:
        several = [source.empty(), *found.pop(source.number, ())]
        tables[source.name] = pa.concat_tables(several, promote_options="default").combine_chunks()
    rest = {what: pa.concat_tables(parts, promote_options="default") for what, parts in found.items()}
    clean, doubt = (None, "kept") if judging.keeps else find_clean(tables, [*rest.values()], model, judging.moment)
    if clean is None:
        blocks.append((0, COUNTED, json.dumps({"not_looked_at": {doubt: 1}}).encode()))
    chunk = Chunk(model, judging.moment)
    before = chunk.restore(rest.pop(PREVIOUS)) if PREVIOUS in rest else None  # before today's rows are among them
    for name, table in (clean.left if clean is not None else tables).items():
        chunk.absorb(model.source_named(name), table)
    rejects = rest.pop(REJECTED, None)
    if rejects is not None:
        chunk.reject(rejects)
        located = rejects.filter(pc.and_(pc.is_valid(rejects["line"]), pc.greater(rejects["sign"], 0)))
        ordered = located.sort_by([("file", "ascending"), ("line", "ascending")])
        blocks.append((0, REJECTED, packed(ordered.slice(0, LISTED_REJECTS))))
    for old, table in rest.items():
        chunk.take_back(model.source(-old), table)
    verdicts, own = chunk.judge(keeps=judging.keeps, clean=clean)
    of_laws = with_own(verdicts, own)
    several_judged = [of_laws] if clean is None else [of_laws, clean.subjects]
    signed = [(each, 1) for each in several_judged] + ([] if before is None else [(before, -1)])
    blocks += _sums(judging, signed)
    if judging.tables:
        wrong = pc.or_(
            pc.not_equal(verdicts["violations"], ""), pc.is_in(verdicts["verdict"], pa.array(WRONG_VERDICTS))
        )
        found_wrong = verdicts.filter(pc.fill_null(wrong, False)).drop_columns([EVIDENCE])
        details = [json.dumps(chunk.broken.get(key, {})) for key in found_wrong["key"].to_pylist()]
        blocks.append((0, FINDINGS, packed(found_wrong.append_column("details", pa.array(details, pa.string())))))
        blocks += _eventful(several_judged, tables["deliveries"])
    names = model.arrow_schema.names
    whole = pa.concat_tables([each.table.select(names) for each in several_judged]).sort_by("key")
    return whole.combine_chunks(), blocks


def _sums(judging: Judging, signed: Sequence[tuple[Subjects, int]]) -> Iterator[Block]:
    """Yield the sums of each table, by the part that its first dimension has."""
    for number, table in enumerate(judging.wanted):
        rows = table.summed(table.of(subjects, sign) for subjects, sign in signed)
        for part in range(judging.parts):
            mine = rows.filter(judging.of_part(table, rows, part))
            if mine.num_rows:
                yield part, number, packed(mine)
    if judging.tables and judging.whole:
        for number, table in enumerate(REPORT_TABLES, EXTRA):
            rows = table.summed(table.of(subjects) for subjects, _ in signed)
            span = pc.min_max(rows["AT"]).as_py() if rows.num_rows else {"min": 0, "max": 0}
            if span["max"] - span["min"] > LONGEST_SECONDS_MS:  # the ends show that the whole is too long to be shown
                rows = rows.sort_by("AT").take(pa.array([0, len(rows) - 1]))
            yield 0, number, packed(rows)


def _eventful(judged: Sequence[Subjects], deliveries: pa.Table) -> Iterator[Block]:
    """Yield the messages with the most takeovers and deliveries, and the lines of their attempts."""
    found = []
    for subjects in judged:
        number, claims = subjects.figure("deliveries"), subjects.figure("ledger_consumptions")
        more = (number > 1) | ((number > 0) & (claims > 1))
        some = subjects.where(more & subjects.among("subject", (SubjectKind.REQUEST,)))
        claims, number = some.figure("ledger_consumptions"), some.figure("deliveries")
        events = np.maximum(claims - 1, 0) * TAKEOVER_WEIGHT + number
        columns = {"key": some["key"], "verdict": some["verdict"], "claims": claims, "deliveries": number}
        found.append(pa.table({**columns, "events": events}))
    ordered = pa.concat_tables(found).sort_by([("events", "descending"), ("key", "ascending")]).slice(0, LIVES)
    yield 0, EVENTFUL, packed(ordered)
    shown = [deliveries.slice(0, 0)]
    for key in ordered["key"]:  # by their numbers, because one key may have millions of lines
        mine = pc.indices_nonzero(pc.equal(deliveries["key"], key))
        first = pc.sort_indices(deliveries["finished"].take(mine)).slice(0, ATTEMPTS_SHOWN)
        shown.append(deliveries.take(mine.take(first)))
    yield 0, LINES_OF, packed(pa.concat_tables(shown))


@dataclass(frozen=True)
class Judged:
    """What the tasks that judged say together: `tables` by number, and the blocks of all else."""

    tables: Mapping[int, pa.Table]
    counts: Mapping[str, Counter[str]]
    blocks: Mapping[int, pa.Table]

    def rows(self, what: int) -> list[dict[str, Any]]:
        """Return the rows of one kind."""
        found: list[dict[str, Any]] = self.blocks[what].to_pylist() if what in self.blocks else []
        return found


def add_up(rows: Iterable[tuple[int, Any]], wanted: Sequence[OperationsTable]) -> Judged:
    """Add up the blocks of one part."""
    found: dict[int, list[pa.Table]] = defaultdict(list)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for what, block in rows:
        if what == COUNTED:
            for name, several in json.loads(bytes(block)).items():
                counts[name].update(several)
        else:
            found[what].append(unpacked(block))
    tables = {number: table.summed(found.pop(number, ())) for number, table in enumerate(wanted)}
    extra = {number: table.summed(found.pop(number, ())) for number, table in enumerate(REPORT_TABLES, EXTRA)}
    others = {what: pa.concat_tables(several, promote_options="default") for what, several in found.items()}
    return Judged(tables, counts, {**extra, **others})


def without_zeros(table: OperationsTable, rows: pa.Table) -> pa.Table:
    """Return sorted rows without those whose figures are all 0, so that they equal those of a full audit."""
    some = np.any([rows[name].to_numpy() != 0 for name in table.figures], axis=0)
    # One copy in place of three: the demand of a million requests has as many rows.
    order = pc.sort_indices(rows, [(name, "ascending") for name in table.dimensions]).to_numpy()
    return rows.take(pa.array(order[some[order]])).combine_chunks()
