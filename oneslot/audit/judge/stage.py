"""The Python stage: whole groups arrive as Arrow batches, and the laws judge them. The rows of one task are one chunk.

A chunk has every row that names one of its subjects, so the laws of `oneslot check` find the same breaches here. A breach whose
subject belongs to another chunk is found there, and dropped here.
"""

from __future__ import annotations

import gc
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge.clean import CleanSubjects, find_clean
from oneslot.audit.judge.group import Group
from oneslot.audit.judged import (
    NO_REQUEST,
    NOT_TEXT,
    OF_REQUEST,
    ONCE_IN_EXPORT,
    PREVIOUS,
    REJECTED,
    ROWS_AT_ONCE,
    Judged,
    decoded,
    row_key,
    summed,
)
from oneslot.audit.model import Model
from oneslot.audit.operations import OperationsTable
from oneslot.audit.spark.sizing import CHUNK_ITEMS
from oneslot.audit.vocabulary import SubjectKind
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.form import FILE_PREFIX, ROW_PREFIX, UNIDENTIFIED_PREFIX
from oneslot.laws.groups import breaches
from oneslot.laws.request import Request
from oneslot.laws.schema import Key, Row, text_of
from oneslot.laws.traces import LEDGER

LOOKED_AT_ROWS = 8 * CHUNK_ITEMS
"""The most carried rows at which the quick look reads a chunk, which it holds whole. A chunk with more has an id with very many
deliveries, or few partitions were asked for. The laws' groups fold deliveries as they arrive."""


@dataclass(frozen=True)
class Moment:
    """The time and the knowledge by which requests are judged: fields of `Evidence`, and which sources there are."""

    now: int
    queue_known: bool
    dead_letters_known: bool
    archive_known: bool
    patience_ms: int
    retention_ms: int | None
    forgotten_before: int


def judge_chunk(
    batches: Iterable[pa.RecordBatch], consumer: AuditConsumer, moment: Moment, *, tables: bool, keeps: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a row of the verdicts for each subject of a task's rows, sorted by key.

    `tables`: sum up all operations tables, rather than the totals alone. `keeps`: keep what the next audit needs.
    """
    with without_collection():
        yield from _judge(batches, consumer, moment, tables=tables, keeps=keeps)
    # Spark keeps an idle worker for a minute, beside the next stage.
    pa.default_memory_pool().release_unused()


def _judge(
    batches: Iterable[pa.RecordBatch], consumer: AuditConsumer, moment: Moment, *, tables: bool, keeps: bool
) -> Iterator[pa.RecordBatch]:
    model, arriving = consumer.model, iter(batches)
    # What is kept for the next audit is made of groups.
    several = [] if keeps else _first(arriving, LOOKED_AT_ROWS)
    clean = find_clean(several, model) if several and sum(map(len, several)) <= LOOKED_AT_ROWS else None
    chunk = Chunk(model, moment)
    for batch in chain(several if clean is None else clean.left, arriving):
        chunk.absorb(batch)
    wanted = model.tables if tables else model.tables[:1]
    counts: Counter[Any] = Counter()
    made = _by_laws(chunk, wanted, counts, keeps=keeps, clean=clean)
    last = None
    for batch in made if clean is None else clean.joined(made, wanted, counts):
        if last is not None:
            yield last
        last = batch
    if last is not None:
        columns = dict(zip(last.schema.names, last.columns, strict=True))
        columns["cells"] = pa.array([*[None] * (last.num_rows - 1), summed(counts)], pa.string())
        yield pa.RecordBatch.from_arrays([*columns.values()], schema=last.schema)


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    """Take batches until they have more rows than this, or all."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        rows -= batch.num_rows
        if rows < 0:
            break
    return found


def _by_laws(
    chunk: Chunk, wanted: Sequence[OperationsTable], counts: Counter[Any], *, keeps: bool, clean: CleanSubjects | None
) -> Iterator[pa.RecordBatch]:
    """Yield the verdicts of a chunk, and add their cells to the counts. What the sample says is compared, and not repeated."""
    schema = chunk.model.arrow_schema
    output: list[list[Any]] = []
    for judged in chunk.judge():
        row = [judged.key, judged.subject, judged.verdict, judged.violations, *judged.figures.values()]
        if clean is not None and judged.key in clean.sample:
            clean.compare(row)
            continue
        if len(output) == ROWS_AT_ONCE:
            yield _batch(output, schema)
            output = []
        group = chunk.groups[judged.key]
        cells = [(number, *cell) for number, table in enumerate(wanted) if (cell := table.cell(judged)) is not None]
        for each in cells:
            counts[each] += 1
        for number, dimensions, figures in group.cells:
            counts[number, tuple(dimensions), tuple(figures)] -= 1
        output.append([*row, None, group.kept(cells) if keeps else None])
    if output:
        yield _batch(output, schema)


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def without_collection() -> Iterator[None]:
    """Let Python look for no cycles: a chunk has millions of objects and none, and the search takes a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Chunk:
    """The groups of one task."""

    def __init__(self, model: Model, moment: Moment) -> None:
        self.model = model
        self.moment = moment
        self.tables = model.declaration.schema.tables
        self.counted = {source: export.counted for source, export in model.exports.items()}
        self.subject_of_prefix: dict[str, str] = {
            FILE_PREFIX: SubjectKind.FILE,
            UNIDENTIFIED_PREFIX: SubjectKind.UNIDENTIFIED,
            ROW_PREFIX: model.row_subject or "row",
        }
        self.blank: dict[str, int | None] = dict.fromkeys(model.figures)
        self.groups: dict[str, Group] = {}

    def absorb(self, batch: pa.RecordBatch) -> None:
        """Add a batch of carried rows. All are parsed by one call, because that takes a fifth of the time."""
        keys, places, texts = (batch.column(name).to_pylist() for name in ("key", "place", "row"))
        groups, sources, tables = self.groups, self.model.sources, len(self.model.exports)
        for key, place, row in zip(keys, places, json.loads(f"[{','.join(texts)}]"), strict=True):
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group()
            if 0 < place <= tables:
                group.rows.setdefault(sources[place - 1], []).append(row)
            elif place == PREVIOUS:
                group.restore(row)
            elif abs(place) == REJECTED:
                group.rejected += 1 if place > 0 else -1
            elif place < 0:
                group.taken_back.append((sources[-place - 1], row))
            else:
                group.add(sources[place - 1], row)

    def judge(self) -> Iterator[Judged]:
        """Yield every subject with its verdict, sorted by key."""
        for group in self.groups.values():
            if group.taken_back:
                group.settle()
        evidence = self._evidence()
        requests = {key: Request(key, evidence) for key in self.groups if key[:1] not in NO_REQUEST}
        broken = self._broken(evidence, requests)
        twice = {law.name for law in self.model.laws if law.twice} | {ONCE_IN_EXPORT}
        for key in sorted(self.groups):
            group, request, found = self.groups[key], requests.get(key), broken.get(key, ())
            subject = self._subject(key, group)
            verdict = None
            if request is not None and subject in OF_REQUEST:
                verdict = request.verdict(twice=not twice.isdisjoint(found))
            violations = " ".join(found) if subject != SubjectKind.GONE else ""
            rows = {source: several[-1] for source, several in group.own.items()}
            recorded = request.recorded if request is not None else None
            yield Judged(key, subject, verdict, violations, self._figures(group, request), rows, recorded)

    def _evidence(self) -> Evidence:
        """Return all rows of the chunk as the laws read them; of a repeated row the first by its text."""
        ledger: dict[str, Row] = {}
        tables: dict[str, dict[Any, Row]] = {name: {} for name in self.tables}
        lines: list[Row] = []
        for key, group in self.groups.items():
            for source, rows in group.rows.items():
                for row in rows if len(rows) == 1 else sorted(rows, key=str, reverse=True):
                    self._take(key, group, source, row, ledger if source == LEDGER else tables[source])
            for line in group.lines:
                line["message_id"] = key
            lines += group.lines
        of = self.groups.items()
        moment = self.moment
        return Evidence(
            requests={key for key, group in of if group.sent is not None} if moment.archive_known else None,
            sent={key: group.sent for key, group in of if group.sent is not None},
            ledger=ledger,
            tables=tables,
            quarantined={key for key, group in of if group.dead},
            dropped={key for key, group in of if group.dropped is not None},
            deliveries=lines,
            waiting={key for key, group in of if group.waiting} if moment.queue_known else None,
            dead_letters_known=moment.dead_letters_known,
            now=moment.now,
            patience_ms=moment.patience_ms,
            retention_ms=moment.retention_ms,
            forgotten_before=moment.forgotten_before,
            schema=self.model.declaration.schema,
        )

    def _take(self, key: str, group: Group, source: str, row: Row, into: dict[Any, Row]) -> None:
        """Add a row to the evidence, and to the group's own rows if its key is the subject."""
        if source == LEDGER:
            value = row if "lease_until" in row else {"lease_until": 0, **row}
            at: Key = row["message_id"]
        else:
            value = decoded(row) if NOT_TEXT in row else row
            at = self.tables[source].key_of(value)
        into[at] = value
        if (row_key(at) if isinstance(at, tuple) else text_of(at)) == key:
            group.own.setdefault(source, []).append(value)

    def _broken(self, evidence: Evidence, requests: Mapping[str, Request]) -> Mapping[str, Collection[str]]:
        """Return the names of the laws that each subject breaks, in the order of the laws."""
        found: dict[str, list[str]] = defaultdict(list)
        # In this order a breach is a row's, where a request's id is what the row is shown as.
        homes = {key.removeprefix(ROW_PREFIX): key for key in sorted(self.groups, reverse=True)}
        for law in self.model.laws:
            for key in _subjects(law, evidence, requests, homes):
                found[key].append(law.name)
        for key, group in self.groups.items():
            if any(len(rows) > 1 for rows in group.own.values()):
                found[key].append(ONCE_IN_EXPORT)
        return found

    def _subject(self, key: str, group: Group) -> str:
        if group.gone:
            return SubjectKind.GONE
        usual = SubjectKind.REQUEST if group.seen else self.model.effect_subject
        return self.subject_of_prefix.get(key[:1], usual)

    def _figures(self, group: Group, request: Request | None) -> dict[str, int | None]:
        """Return the figures of a subject. A count of 0 is null, which takes no space."""
        found = self.blank.copy()
        for source, rows in group.own.items():
            found[self.counted[source]] = len(rows)
        if group.rejected:
            found["rejected"] = group.rejected
        if group.dead:
            found["dead_letters"] = group.dead
        if group.waiting:
            found["waiting"] = group.waiting
        if request is None:
            return found
        if request.row is not None:
            found["ledger_complete"] = int(request.complete) or None
            found["ledger_consumptions"] = request.row["consumption_count"] or None
            found["ledger_resting_since"] = request.resting or None
            found["ledger_outcome"] = self.model.codes[request.recorded] if request.complete else None
        if request.lines:
            found["deliveries"], done, duplicates = group.deliveries()
            found["deliveries_done"], found["deliveries_duplicate"] = done or None, duplicates or None
            found["delivered_outcome"] = self.model.codes[request.logged] if request.answered else None
            found["delivery_sent"], found["last_finished"] = request.sent, request.last
            found["first_done"], found["quarantined_at"] = request.first_done, request.quarantined_at
            found["consumptions_seen"] = request.counted or None
        found["accepted_sent"], found["accepted_copies"] = group.sent, group.copies or None
        found["dropped_at"] = group.dropped
        return found


def _subjects(law: Law, evidence: Evidence, requests: Mapping[str, Request], homes: Mapping[str, str]) -> Iterable[str]:
    """Return the keys of the chunk's own subjects that break a law."""
    if law.of_request is None:
        found = breaches(law, evidence)
        return dict.fromkeys(homes[breach.subject] for breach in found if breach.subject in homes)
    judge = law.of_request
    return [key for key, request in requests.items() if judge(request) is not None]
