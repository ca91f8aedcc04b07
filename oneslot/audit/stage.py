"""The Python stage: whole groups arrive as Arrow batches, and the laws judge them. The rows of one task are one chunk.

A chunk has every row that names one of its subjects, so the laws of `oneslot check` find the same breaches here. A breach whose
subject belongs to another chunk is found there, and dropped here.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from oneslot.audit.group import Group
from oneslot.audit.vocabulary import FILE_PREFIX, ROW_PREFIX, Problem, Subject
from oneslot.declaration.declaration import Declaration
from oneslot.laws.evidence import LEDGER, Evidence, Law
from oneslot.laws.groups import breaches, guarded, named_by
from oneslot.laws.request import Request
from oneslot.laws.schema import UNIDENTIFIED_PREFIX, Row, Schema, text_of
from oneslot.runtime.values import from_attribute

if TYPE_CHECKING:
    from oneslot.audit.model import Model

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
KEPT = ("cells", "evidence")
"""Text columns: the sums of a chunk's rows, in one of them, and what the next audit needs of a row."""


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


@dataclass(frozen=True)
class Consumer:
    """What a Python worker must know to judge; it imports the rest. `path`: folders of the driver's `sys.path`."""

    declaration: Declaration
    path: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what was computed: laws and functions are imported where they run."""
        return Consumer, (replace(self.declaration), self.path)

    @cached_property
    def model(self) -> Model:
        """The audit's model of the consumer."""
        from oneslot.audit.model import model_of  # which imports this module

        sys.path.extend(folder for folder in self.path if folder not in sys.path)
        return model_of(self.declaration)

    @property
    def schema(self) -> Schema:
        """The consumer's tables and outcomes."""
        return self.model.declaration.schema

    def subjects_of(self, file: str, place: int, text: str) -> Iterator[tuple[str, int, str]]:
        """Yield a carried row under each subject that it names by the consumer's functions, or as a reject of its file."""
        if abs(place) == REJECTED:
            yield file if place > 0 else FILE_PREFIX, place, text
            return
        table = self.schema.tables[self.model.sources[abs(place) - 1]]
        row = decoded(json.loads(text))
        found = guarded(
            lambda: None if any(table.lacking(row)) else list(dict.fromkeys(named_by(table, row))),
            f"The function in `request` or `lacking` of tables.{table.name}",
            "or name an attribute",
        )
        if found is None:
            reject = REJECTED if place > 0 else -REJECTED
            yield file if place > 0 else FILE_PREFIX, reject, str(int(Problem.MISSING_ATTRIBUTE))
            return
        for subject in found:
            composite = len(table.key) > 1 and subject == text_of(table.key_of(row))
            yield key_of_text(subject) if composite else subject, place, text


def key_of_text(text: str) -> str:
    """Return the key of a row with a key of several attributes, from its text."""
    return ROW_PREFIX + text.replace("/", ROW_PREFIX)


def shown_key(key: str) -> str:
    """Return the text of a key: a subject as laws name it."""
    return key[1:].replace(ROW_PREFIX, "/") if key.startswith(ROW_PREFIX) else key


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
    """A subject with its verdict and figures, for the operations tables. `rows`: those whose key it is, by table."""

    key: str
    subject: str
    verdict: str | None
    violations: str
    figures: Mapping[str, int | None]
    rows: Mapping[str, Row]
    request: Request | None

    @property
    def is_request(self) -> bool:
        """Whether it is a request, with an id or without."""
        return self.subject in (Subject.REQUEST, Subject.UNIDENTIFIED)

    @property
    def sent(self) -> int | None:
        """When a request was sent, epoch ms: SQS's time of the first copy, else the producer's."""
        logged = self.figures["delivery_sent"]
        return self.figures["accepted_sent"] if logged is None else logged


def judge_chunk(
    batches: Iterable[pa.RecordBatch], consumer: Consumer, moment: Moment, *, tables: bool, keeps: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a row of the verdicts for each subject of a task's rows, sorted by key.

    `tables`: sum up all operations tables, rather than the totals alone. `keeps`: keep what the next audit needs.
    """
    with without_collection():
        yield from _judge(batches, consumer, moment, tables=tables, keeps=keeps)


def _judge(
    batches: Iterable[pa.RecordBatch], consumer: Consumer, moment: Moment, *, tables: bool, keeps: bool
) -> Iterator[pa.RecordBatch]:
    chunk = Chunk(consumer.model, moment)
    for batch in batches:
        chunk.absorb(batch)
    if not chunk.groups:
        return
    wanted = consumer.model.tables if tables else consumer.model.tables[:1]
    counts: Counter[Any] = Counter()
    output = []
    for judged in chunk.judge():
        group = chunk.groups[judged.key]
        cells = [(number, *cell) for number, table in enumerate(wanted) if (cell := table.cell(judged)) is not None]
        counts.update(cells)
        counts.subtract((number, tuple(dimensions), tuple(figures)) for number, dimensions, figures in group.cells)
        texts = (judged.key, judged.subject, judged.verdict, judged.violations)
        output.append([*texts, *judged.figures.values(), None, group.kept(cells) if keeps else None])
    output[0][-2] = summed(counts)
    schema = consumer.model.arrow_schema
    columns = zip(*output, strict=True)
    yield pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema
    )


def summed(counts: Mapping[Any, int]) -> str:
    """Return the sums of cells as JSON, without those that are all zeros. Most cells are equal, and counted before."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for (number, dimensions, figures), count in counts.items():
        found = sums.setdefault((number, *dimensions), [0] * len(figures))
        found[:] = [one + count * (other or 0) for one, other in zip(found, figures, strict=True)]
    rows = [{"t": number, "d": dims, "f": sums[number, *dims]} for number, *dims in sorted(sums)]
    return json.dumps([row for row in rows if any(row["f"])], separators=(",", ":"))


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
        self.blank: dict[str, int | None] = dict.fromkeys(model.figures)
        self.groups: dict[str, Group] = {}

    def absorb(self, batch: pa.RecordBatch) -> None:
        """Add a batch of carried rows. All are parsed by one call, because that takes a fifth of the time."""
        keys, places, texts = (batch.column(name).to_pylist() for name in ("key", "place", "row"))
        groups, sources = self.groups, self.model.sources
        for key, place, row in zip(keys, places, json.loads(f"[{','.join(texts)}]"), strict=True):
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group()
            number = abs(place)
            if number == REJECTED:
                group.rejected += 1 if place > 0 else -1
            elif number == PREVIOUS:
                group.restore(row)
            else:
                group.add(sources[number - 1], place, row)

    def judge(self) -> Iterator[Judged]:
        """Yield every subject with its verdict, sorted by key."""
        for group in self.groups.values():
            if group.taken_back:
                group.settle()
        evidence = self._evidence()
        requests = {key: Request(key, evidence) for key in self.groups if not key.startswith((ROW_PREFIX, FILE_PREFIX))}
        broken = self._broken(evidence, requests)
        twice = {law.name for law in self.model.laws if law.twice} | {ONCE_IN_EXPORT}
        for key in sorted(self.groups):
            group, request, found = self.groups[key], requests.get(key), broken.get(key, ())
            subject = self._subject(key, group)
            is_request = request is not None and subject in (Subject.REQUEST, Subject.UNIDENTIFIED)
            verdict = request.verdict(twice=not twice.isdisjoint(found)) if request and is_request else None
            violations = " ".join(found) if subject != Subject.GONE else ""
            figures = self._figures(group, request)
            rows = {source: several[-1] for source, several in group.own.items()}
            yield Judged(key, subject, verdict, violations, figures, rows, request)

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
            value: Row = {"lease_until": 0, **row}
            text = at = row["message_id"]
        else:
            value = decoded(row)
            at = self.tables[source].key_of(value)
            text = text_of(at)
        into[at] = value
        if text == key or (isinstance(at, tuple) and text == shown_key(key)):
            group.own.setdefault(source, []).append(value)

    def _broken(self, evidence: Evidence, requests: Mapping[str, Request]) -> Mapping[str, Collection[str]]:
        """Return the names of the laws that each subject breaks, in the order of the laws."""
        found: dict[str, list[str]] = defaultdict(list)
        homes = {shown_key(key): key for key in self.groups}
        for law in self.model.laws:
            for key in _subjects(law, evidence, requests, homes):
                found[key].append(law.name)
        for key, group in self.groups.items():
            if any(len(rows) > 1 for rows in group.own.values()):
                found[key].append(ONCE_IN_EXPORT)
        return found

    def _subject(self, key: str, group: Group) -> str:
        if group.gone:
            return Subject.GONE
        of_prefix: dict[str, str] = {FILE_PREFIX: Subject.FILE, UNIDENTIFIED_PREFIX: Subject.UNIDENTIFIED}
        of_prefix |= {ROW_PREFIX: self.model.row_subject or "row"}
        if key[:1] in of_prefix:
            return of_prefix[key[:1]]
        return Subject.REQUEST if group.seen else self.model.effect_subject

    def _figures(self, group: Group, request: Request | None) -> dict[str, int | None]:
        found = self.blank.copy()
        for source, rows in group.own.items():
            found[self.model.exports[source].counted] = len(rows)
        found |= {
            "rejected": group.rejected or None,
            "dead_letters": group.dead or None,
            "waiting": group.waiting or None,
        }
        if request is None:
            return found
        if request.row is not None:
            found["ledger_complete"] = int(request.complete) or None
            found["ledger_consumptions"] = request.row["consumption_count"] or None
            found["ledger_resting_since"] = request.resting or None
            found["ledger_outcome"] = self.model.code(request.recorded) if request.complete else None
        if request.lines:
            found |= group.deliveries()
            found["delivered_outcome"] = self.model.code(request.logged) if request.answered else None
            found |= {"delivery_sent": request.sent, "first_done": request.first_done, "last_finished": request.last}
            found |= {"quarantined_at": request.quarantined_at, "consumptions_seen": request.counted or None}
        found |= {"accepted_sent": group.sent, "accepted_copies": group.copies or None, "dropped_at": group.dropped}
        return found


def _subjects(law: Law, evidence: Evidence, requests: Mapping[str, Request], homes: Mapping[str, str]) -> Iterable[str]:
    """Return the keys of the chunk's own subjects that break a law."""
    if law.of_request is None:
        found = breaches(law, evidence)
        return dict.fromkeys(homes[breach.subject] for breach in found if breach.subject in homes)
    judge = law.of_request
    return [key for key, request in requests.items() if judge(request) is not None]
