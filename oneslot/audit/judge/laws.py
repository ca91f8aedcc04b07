"""The laws' judgement of a chunk: groups of rows, from which the evidence is made that `oneslot check` has of a whole stack."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oneslot.audit.judge.clean import CleanSubjects
from oneslot.audit.judge.evidence import filled, folded
from oneslot.audit.judged import EVIDENCE, NO_REQUEST, OF_REQUEST, ONCE_IN_EXPORT, SubjectKind, Subjects, with_own
from oneslot.audit.model import Model
from oneslot.audit.read.blocks import decoded, dicts
from oneslot.audit.read.source import Source
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.form import FILE_PREFIX, ROW_PREFIX, UNIDENTIFIED_PREFIX
from oneslot.laws.groups import breaches, guarded
from oneslot.laws.request import Request, RequestVerdict
from oneslot.laws.schema import Key, Row, is_answer, text_of
from oneslot.laws.traces import LEDGER


@dataclass(slots=True)
class Group:
    """All that names one subject. `rows` and `taken_back` are carried rows by source; `own` are those whose key it is.

    `unreadable` counts the rows out of form that name it.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    taken_back: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    own: dict[str, list[Row]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    sent: int | None = None
    copies: int = 0
    dead: int = 0
    waiting: int = 0
    dropped: int | None = None
    rejected: int = 0
    unreadable: int = 0

    def add(self, source: str, row: Any) -> None:
        """Add a line of a log or a list."""
        match source:
            case "deliveries":
                self.lines.append(row)
            case "accepted":
                self.sent = row["sent"] if self.sent is None else min(self.sent, row["sent"])
                self.copies += row["copies"]
            case "dead-letters":
                self.dead += 1
            case "waiting":
                self.waiting += 1
            case "dropped":
                self.dropped = row if self.dropped is None else max(self.dropped, row)

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Add what an earlier audit kept, but its lines. The content of the queues is taken from today only."""
        for source, rows in kept["rows"].items():
            self.rows.setdefault(source, []).extend(rows)
        if kept["sent"] is not None:
            self.add("accepted", {"sent": kept["sent"], "copies": kept["copies"]})
        if kept["dropped"] is not None:
            self.add("dropped", kept["dropped"])
        self.rejected += kept["rejected"]
        self.unreadable += kept["unreadable"]

    def settle(self) -> None:
        """Take back the rows that old images equal. One that was rejected when it was new is not there."""
        for source, row in self.taken_back:
            if row in self.rows.get(source, ()):
                self.rows[source].remove(row)

    def kept(self) -> str:
        """Return what the next audit needs, as JSON."""
        rows = {source: sorted(several, key=str) for source, several in self.rows.items() if several}
        document: dict[str, Any] = {"rows": rows, "lines": sorted(self.lines, key=str)}
        document |= {name: getattr(self, name) for name in ("sent", "copies", "dropped", "rejected", "unreadable")}
        return json.dumps(document, separators=(",", ":"), sort_keys=True)

    @property
    def seen(self) -> bool:
        """Whether something says that it is a request."""
        logged = self.lines or self.dead or self.waiting
        return bool(self.own.get(LEDGER) or logged) or self.sent is not None or self.dropped is not None

    @property
    def gone(self) -> bool:
        """Whether nothing is left of it."""
        return not (self.seen or self.rejected or self.unreadable or any(self.rows.values()))

    def deliveries(self) -> tuple[int, int, int]:
        """Return the number of deliveries, of those with an answer, and of duplicates, which are among these."""
        found = duplicates = done = 0
        for line in self.lines:
            copies, outcome = line.get("copies", 1), line["outcome"]
            found += copies
            if outcome == "duplicate":
                duplicates += copies
            elif is_answer(outcome):
                done += copies
        return found, done + duplicates, duplicates


class Chunk:
    """The groups of one task."""

    def __init__(self, model: Model, moment: Evidence) -> None:
        self.model = model
        self.moment = moment
        self.tables = model.declaration.schema.tables
        self.subject_of_prefix: dict[str, str] = {
            FILE_PREFIX: SubjectKind.FILE,
            UNIDENTIFIED_PREFIX: SubjectKind.UNIDENTIFIED,
            ROW_PREFIX: model.row_subject or "row",
        }
        self.groups: dict[str, Group] = defaultdict(Group)
        self.broken: Mapping[str, Mapping[str, str]] = {}
        self.earlier: list[Row] = []

    def absorb(self, source: Source, table: pa.Table) -> None:
        """Add rows or lines."""
        if source.name == "deliveries":
            table, several = folded(table, self.earlier)
            self.earlier.clear()
            for row in several:
                self.groups[row.pop("key")].add(source.name, row)
        for key, row in zip(table["key"].to_pylist(), dicts(table), strict=True):
            if source.table is None:
                self.groups[key].add(source.name, row["at"] if source.name == "dropped" else row)
            else:
                self.groups[key].rows.setdefault(source.name, []).append(row)

    def take_back(self, source: Source, table: pa.Table) -> None:
        """Add old images."""
        for key, row in zip(table["key"].to_pylist(), dicts(table), strict=True):
            self.groups[key].taken_back.append((source.name, row))

    def reject(self, table: pa.Table) -> None:
        """Count rejects: malformed lines of a file, and rows because of which a subject is unreadable."""
        for key, sign in zip(table["key"].to_pylist(), table["sign"].to_pylist(), strict=True):
            if key.startswith(FILE_PREFIX):
                self.groups[key].rejected += sign
            else:
                self.groups[key].unreadable += sign

    def restore(self, kept: pa.Table) -> Subjects:
        """Add what earlier audits kept of each subject in the newest of them. Return the subjects as they were judged then."""
        newest: dict[str, tuple[int, int]] = {}
        for place, (key, layer) in enumerate(zip(kept["key"].to_pylist(), kept["layer"].to_pylist(), strict=True)):
            if key not in newest or layer > newest[key][0]:
                newest[key] = layer, place
        rows = kept.take(pa.array([place for _, place in newest.values()], pa.int64()))
        own: list[dict[str, Row]] = []
        for key, text in zip(rows["key"].to_pylist(), rows[EVIDENCE].to_pylist(), strict=True):
            group, kept = self.groups[key], json.loads(text)
            group.restore(kept)
            self.earlier += ({**line, "key": key} for line in kept["lines"])
            own.append({source: min(rows, key=str) for source, rows in self._own(key, group).items()})
        return with_own(rows.drop_columns(["layer"]), self._columns(own))

    def _own(self, key: str, group: Group) -> dict[str, list[Row]]:
        """Return the rows of a group whose key is the subject, by source."""
        found: dict[str, list[Row]] = {}
        for source, rows in group.rows.items():
            for row in rows:
                value = decoded(row)
                if self._key(source, value)[1] == key:
                    found.setdefault(source, []).append(value)
        return found

    def _key(self, source: str, value: Row) -> tuple[Key, str]:
        """Return a row's key, and that of the subject that it is."""
        at: Key = value["message_id"] if source == LEDGER else self.tables[source].key_of(value)
        return at, f"{ROW_PREFIX if isinstance(at, tuple) else ''}{text_of(at)}"

    def _columns(self, own: list[dict[str, Row]]) -> dict[str, pa.Array]:
        """Return the attributes of own rows that operations tables read."""
        return {
            f"{source}.{name}": pa.array([each.get(source, {}).get(name) for each in own], kind)
            for source, name, kind in self.model.reads
        }

    def judge(self, *, keeps: bool, clean: CleanSubjects | None) -> tuple[pa.Table, dict[str, pa.Array]]:
        """Return the verdict on every subject, and attributes of its own rows. What the sample says is only compared."""
        schema = self.model.arrow_schema
        output: list[list[Any]] = []
        own: list[dict[str, Row]] = []
        for row, rows in self._judge():
            if clean is not None and row[0] in clean.sample:
                clean.compare(row)
                continue
            output.append([*row, self.groups[row[0]].kept() if keeps else None])
            own.append(rows)
        columns = zip(*output, strict=True) if output else [()] * len(schema)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema), self._columns(own)

    def _judge(self) -> Iterator[tuple[list[Any], dict[str, Row]]]:
        """Yield the row of each subject's verdict and its own rows."""
        for group in self.groups.values():
            if group.taken_back:
                group.settle()
        evidence = self._evidence()
        requests = {key: Request(key, evidence) for key in self.groups if key[:1] not in NO_REQUEST}
        self.broken = self._broken(evidence, requests)
        twice = {law.name for law in self.model.laws if law.twice} | {ONCE_IN_EXPORT}
        for key in sorted(self.groups):
            group, request, found = self.groups[key], requests.get(key), self.broken.get(key, {})
            subject = self._subject(key, group)
            verdict: str | None = None
            if group.unreadable > 0 and subject != SubjectKind.FILE:
                verdict, found = RequestVerdict.UNREADABLE, {}
            elif request is not None and subject in OF_REQUEST:
                verdict = request.verdict(twice=not twice.isdisjoint(found))
            violations = " ".join(found) if subject != SubjectKind.GONE else ""
            rows = {source: several[-1] for source, several in group.own.items()}
            yield [key, str(subject), verdict, violations, *self._figures(group, request).values()], rows

    def _evidence(self) -> Evidence:
        """Return all rows as the laws read them, of a repeated one the first by its text, and note each group's own rows."""
        ledger: dict[str, Row] = {}
        tables: dict[str, dict[Any, Row]] = {name: {} for name in self.tables}
        lines: list[Row] = []
        for key, group in self.groups.items():
            for source, rows in group.rows.items():
                into: dict[Any, Row] = ledger if source == LEDGER else tables[source]
                for row in rows if len(rows) == 1 else sorted(rows, key=str, reverse=True):
                    value = decoded(row)
                    at, subject = self._key(source, value)
                    into[at] = value
                    if subject == key:
                        group.own.setdefault(source, []).append(value)
            for line in group.lines:
                line["message_id"] = key
            lines += group.lines
        of = self.groups.items()
        return filled(
            self.moment,
            self.model.declaration.schema,
            {key: group.sent for key, group in of if group.sent is not None},
            {key for key, group in of if group.waiting},
            ledger=ledger,
            tables=tables,
            quarantined={key for key, group in of if group.dead},
            dropped={key for key, group in of if group.dropped is not None},
            deliveries=lines,
        )

    def _broken(self, evidence: Evidence, requests: Mapping[str, Request]) -> Mapping[str, Mapping[str, str]]:
        """Return the laws that each subject breaks, in their order, each with how it is broken, as `oneslot check` says it."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        # In this order a breach is a row's, where a request's id is what the row is shown as.
        homes = {key.removeprefix(ROW_PREFIX): key for key in sorted(self.groups, reverse=True)}
        for law in self.model.laws:
            for key, detail in sorted(_breaches(law, evidence, requests, homes)):
                found[key].setdefault(law.name, detail)
        for key, group in self.groups.items():
            for source, rows in group.own.items():
                if len(rows) > 1:
                    found[key][ONCE_IN_EXPORT] = f"the export of {source} holds it {len(rows)} times"
        return found

    def _subject(self, key: str, group: Group) -> str:
        if group.gone:
            return SubjectKind.GONE
        if key[:1] in self.subject_of_prefix or group.seen:
            return self.subject_of_prefix.get(key[:1], SubjectKind.REQUEST)
        # A row that names no request, such as a stock's, has the name of its table.
        return next((name for name in group.own if not self.tables[name].effects), self.model.effect_subject)

    def _figures(self, group: Group, request: Request | None) -> dict[str, int | None]:
        """Return the figures of a subject. A count of 0 is null, which takes no space."""
        found: dict[str, int | None] = dict.fromkeys(self.model.figures)
        found |= {self.model.exports[source].counted: len(rows) for source, rows in group.own.items()}
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


def _breaches(
    law: Law, evidence: Evidence, requests: Mapping[str, Request], homes: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Return the chunk's own subjects that break a law, each with how it is broken."""
    if law.of_request is None:
        found = breaches(law, evidence)
        return [(homes[breach.subject], breach.detail) for breach in found if breach.subject in homes]
    judge = law.of_request
    return guarded(
        lambda: [(key, detail) for key, request in requests.items() if (detail := judge(request)) is not None],
        f"The law {law.name}",
        "or report it if it is the ledger's",
    )
