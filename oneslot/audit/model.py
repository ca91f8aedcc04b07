"""The audit's model of one consumer: how its exports are read, its laws, its tables and its words.

Every consumer has the ledger's laws. Its declaration says the rest. One whose rows say more names a function from its
declaration to a `Model` as `tools.audit`; the appointments' is in `demo/audit`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from oneslot.audit import operations
from oneslot.audit.judge.columns import Plain
from oneslot.audit.judged import COUNTS, KEPT, ONCE_IN_EXPORT, TEXTS, TIMES
from oneslot.audit.operations import OperationsTable, Summary
from oneslot.audit.read import sources
from oneslot.audit.read.carry import (
    ExportedTable,
    absent,
    key_of_row,
    reserved,
)
from oneslot.audit.read.logs import quoted
from oneslot.audit.write.rows import ARROW_TYPES
from oneslot.declaration.declaration import Declaration, DeclaredTable
from oneslot.errors import InvalidDeclaration
from oneslot.laws.evidence import Law
from oneslot.laws.form import LARGEST_COUNT, LATEST_EPOCH_MS, Problem
from oneslot.laws.request import RequestVerdict
from oneslot.laws.schema import LEDGER_ATTRIBUTES, Schema
from oneslot.laws.traces import LEDGER

SOURCE_FINDINGS = {ONCE_IN_EXPORT: "A table's export holds each item at most once."}
"""Findings about the sources themselves; the laws are the consumer's."""
UNKNOWN_OUTCOME = 9
"""The code of an answer that is not one of the consumer's."""


@dataclass(frozen=True)
class Listing:
    """A summary that the report lists.

    Attributes:
        summary: its name.
        title, note: of the section.
        order: its columns, the most important first; with a minus the largest value comes first.
        columns: head, name and kind of each further column: `count` or `share`.
        head, key: of the first column.
    """

    summary: str
    title: str
    note: str
    order: tuple[str, ...]
    head: str
    key: str
    columns: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Words:
    """The report's words.

    Attributes:
        verdicts: the end of the sentence "The request ..." for each answer.
        ends: the same for one request and for several, in the report's story.
        twice: the second half of the headline: "0 lost · 0 done twice".
        twice_first: what an operator does first about such a request.
        twice_laws: the laws that it breaks; without any, the verdicts are counted.
        subjects: what findings are about.
        figures: head and name of columns of `demand` that the report also adds up and shows by day.
        days_note: what these mean.
        marks: the role of the colour and the mark of an attempt with this answer.
    """

    verdicts: Mapping[str, str]
    ends: Mapping[str, tuple[str, str]]
    twice: str = Declaration.twice
    twice_first: str = "stop the consumer, then decide for each line of repair/look-at.jsonl which effect stays."
    twice_laws: tuple[str, ...] = ()
    subjects: str = "request"
    figures: tuple[tuple[str, str], ...] = ()
    days_note: str = ""
    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """The audit's knowledge of one consumer.

    Attributes:
        exports: by table, the ledger first.
        tables, summaries: the operations tables, the totals first.
        words: the report's.
        row_subject: the kind of thing that a row is, if its key is not a request's id.
        effect_subject: a request that a row names, and that was never seen.
        listing: a summary for the report.
        plain: when the consumer's own laws say nothing of a subject; None to ask the laws about all.
    """

    declaration: Declaration
    exports: Mapping[str, ExportedTable]
    tables: tuple[OperationsTable, ...]
    summaries: tuple[Summary, ...]
    words: Words
    row_subject: str | None = None
    effect_subject: str = "effect"
    listing: Listing | None = None
    plain: Plain | None = None

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The laws that a history can show."""
        return tuple(self.declaration.judged)

    @property
    def sentences(self) -> dict[str, str]:
        """All that a history can show, by name, in the order of the consumer's laws."""
        return {law.name: law.sentence for law in self.laws} | SOURCE_FINDINGS

    @property
    def verdicts(self) -> tuple[str, ...]:
        """All verdicts, the answers first."""
        return (*self.words.verdicts, *map(str, RequestVerdict))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, by their places from 1."""
        return (*self.exports, *sources.LINES)

    @cached_property
    def row_counts(self) -> tuple[str, ...]:
        """The columns of verdicts that count rows."""
        return tuple(table.counted for table in self.exports.values())

    @property
    def summed(self) -> tuple[str, ...]:
        """The figures that the totals add up."""
        return tuple(name.removeprefix("sum_") for name in self.tables[0].figures if name.startswith("sum_"))

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The columns of verdicts that are numbers."""
        return (*self.row_counts, *COUNTS, *TIMES)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of verdicts with Spark's types, without the key's hash."""
        texts = dict.fromkeys(TEXTS, "string")
        return texts | dict.fromkeys(self.figures, "bigint") | dict.fromkeys(KEPT, "string")

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns of verdicts as Python makes them."""
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    @property
    def carried(self) -> str:
        """A digest of what travels, and to whom: what one audit kept, another cannot use if it differs."""
        said = [(name, table.row, table.subjects) for name, table in self.exports.items()]
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]

    @cached_property
    def codes(self) -> dict[str | None, int]:
        """The number of each answer: from 1, in the order of the declaration."""
        return {None: UNKNOWN_OUTCOME} | {word: code for code, word in enumerate(self.declaration.schema.answers, 1)}


def model_of(declaration: Declaration) -> Model:
    """Return the model of a declared consumer. Raises `NotImportable` for a name in it."""
    build: Callable[[Declaration], Model] = declaration.tool("audit") or model_of_declaration
    return build(declaration)


def model_of_declaration(declaration: Declaration) -> Model:
    """Return the model of a consumer. Raises `InvalidDeclaration` for an outcome that is a verdict's name, such as `lost`."""
    answers = declaration.schema.answers
    if taken := [word for word in answers if word in set(map(str, RequestVerdict))]:
        raise InvalidDeclaration(
            f"{declaration.path or declaration.name}: the outcome {taken[0]!r} is also a verdict of the audit. "
            "Give it another name, in the consumer's results as well."
        )
    exports = exports_of(declaration)
    counts = tuple(table.counted for table in exports.values())
    return Model(
        declaration,
        exports,
        (operations.totals(counts), operations.demand(), operations.LATENCY),
        (operations.days((*operations.DEMAND_COUNTS, "ANSWERED")),),
        Words(
            twice=declaration.twice,
            twice_laws=tuple(law.name for law in declaration.judged if law.twice),
            verdicts={word: "took effect" if word == answers[-1] else f"was answered: {word}" for word in answers},
            ends={word: (f"is {word}", f"are {word}") for word in answers},
            figures=(("Answered", "ANSWERED"),),
            days_note="Answered: the request has a recorded answer.",
        ),
    )


def exports_of(declaration: Declaration, **details: ExportedTable) -> dict[str, ExportedTable]:
    """Return how each export is read, the ledger's first; `details` take the place of what the declaration says."""
    tables = {name: details.get(name) or _exported(name, table) for name, table in declaration.declared_tables.items()}
    return {LEDGER: _ledger(declaration.schema), **tables}


def _ledger(schema: Schema) -> ExportedTable:
    named = {outcome.name: outcome.names for outcome in schema.outcomes.values() if outcome.names}
    others = " ".join(
        f"WHEN {quoted(outcome)} THEN get_json_object(result, {quoted(f'$.{name}')})" for outcome, name in named.items()
    )
    # Most answers name no other request, and are not parsed.
    some = " OR ".join(f"contains(result, {quoted(outcome)})" for outcome in named)
    about = (
        f"CASE WHEN status = 'COMPLETE' AND ({some}) THEN CASE get_json_object(result, '$.outcome') {others} END END"
    )
    return ExportedTable(
        key=("message_id",),
        texts=("message_id", "status", "result"),
        numbers={
            "consumption_count": LARGEST_COUNT,
            "updated": LATEST_EPOCH_MS,
            "lease_until": LATEST_EPOCH_MS,
            "unsent": LARGEST_COUNT,
        },
        subjects=("message_id", *((about,) if named else ())),
        problems={
            Problem.MISSING_ATTRIBUTE: absent("message_id", "status", "consumption_count", "updated"),
            Problem.UNKNOWN_VALUE: f"status NOT IN ('IN_PROGRESS', 'COMPLETE') OR {reserved('message_id')}",
        },
        counted="ledger_rows",
        known=frozenset((*LEDGER_ATTRIBUTES, "sends")),
    )


def _exported(name: str, table: DeclaredTable) -> ExportedTable:
    """Return how a table is read whose attributes have any type."""
    by_function = bool(table.request and "." in table.request)
    request = () if by_function or table.request is None else (table.request,)
    times = (table.time,) if table.time else ()
    travels = tuple(each for each in table.attributes or table.needed if each not in times)
    return ExportedTable(
        key=table.key,
        texts=(),
        numbers=dict.fromkeys(times, LATEST_EPOCH_MS),
        anything=travels,
        subjects=subjects_of(table, text),
        problems={
            Problem.MISSING_ATTRIBUTE: absent(*map(text, table.key)),
            Problem.UNKNOWN_VALUE: " OR ".join(reserved(text(each)) for each in request) or "false",
        },
        counted=f"{name}_rows",
        asks=bool(table.lacking) or (by_function and not table.names),
        wanted=dict.fromkeys(request, f"tables.{name}.request") | dict.fromkeys(times, f"tables.{name}.time"),
    )


def text(name: str) -> str:
    """Return SQL for an attribute of any type as text."""
    return f"coalesce(`{name}`.S, `{name}`.N, `{name}`.B)"


def subjects_of(table: DeclaredTable, text_of: Callable[[str], str] = "`{}`".format) -> tuple[str, ...]:
    """Return SQL of each subject that a row of a table names: its key, its request, and what `names` says."""
    request = [table.request] if table.request and "." not in table.request else []
    named = [table.key, *((each,) for each in request), *(tuple(name.split("/")) for name in table.names)]
    found = (text_of(parts[0]) if len(parts) == 1 else key_of_row(*map(text_of, parts)) for parts in named)
    return tuple(dict.fromkeys(found))
