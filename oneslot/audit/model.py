"""The audit's model of one consumer: how its exports are read, its laws, its tables and its words.

Every consumer has the ledger's laws. Its declaration says the rest. One whose rows say more names a function from its
declaration to a `Model` as `tools.audit`; the appointments' is in `demo/audit`.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from oneslot.audit import operations
from oneslot.audit.judge.columns import Plain, plain_of
from oneslot.audit.judged import COUNTS, EVIDENCE, ONCE_IN_EXPORT, TEXTS, TIMES
from oneslot.audit.operations import OperationsTable, Summary
from oneslot.audit.read.source import OTHERS, ExportedTable, Source
from oneslot.audit.write.tables import ARROW_TYPES
from oneslot.declaration.declaration import Declaration
from oneslot.errors import InvalidDeclaration
from oneslot.laws.evidence import Law
from oneslot.laws.form import ANY, LEDGER_ROW, LINES, Form
from oneslot.laws.request import RequestVerdict
from oneslot.laws.schema import LEDGER_ATTRIBUTES, Schema, Table
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
class ReportWords:
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
    subjects: str = "request and row"
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
        tables_read: the attributes of a subject's own rows that operations tables read, by table.
    """

    declaration: Declaration
    exports: Mapping[str, ExportedTable]
    tables: tuple[OperationsTable, ...]
    summaries: tuple[Summary, ...]
    words: ReportWords
    row_subject: str | None = None
    effect_subject: str = "effect"
    listing: Listing | None = None
    plain: Plain | None = None
    tables_read: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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
    def all_sources(self) -> tuple[Source, ...]:
        """The sources, by their numbers from 1."""
        names = enumerate((*self.exports, *LINES), 1)
        return tuple(_source(number, name, self.exports.get(name), self.declaration.schema) for number, name in names)

    def source(self, number: int) -> Source:
        """Return the source of a number."""
        return self.all_sources[number - 1]

    def source_named(self, name: str) -> Source:
        """Return a source by its name."""
        return next(each for each in self.all_sources if each.name == name)

    @cached_property
    def reads(self) -> tuple[tuple[str, str, pa.DataType], ...]:
        """The source, name and type of each attribute that operations tables read."""
        found = ((name, self.source_named(name).types, several) for name, several in self.tables_read.items())
        return tuple((name, each, types[each]) for name, types, several in found for each in several)

    @property
    def summed(self) -> tuple[str, ...]:
        """The figures that the totals add up."""
        return tuple(name.removeprefix("sum_") for name in self.tables[0].figures if name.startswith("sum_"))

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The columns of verdicts that are numbers."""
        return (*(table.counted for table in self.exports.values()), *COUNTS, *TIMES)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of verdicts with Spark's types, without the key's hash."""
        texts = dict.fromkeys(TEXTS, "string")
        return texts | dict.fromkeys(self.figures, "bigint") | {EVIDENCE: "string"}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns of verdicts as Python makes them."""
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    @property
    def carried(self) -> str:
        """A digest of what travels, and to whom: what one audit kept, another cannot use if it differs."""
        said = [(name, table.form, table.subjects) for name, table in self.exports.items()]
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
    of_tables = {name: _exported(table, declaration) for name, table in declaration.schema.tables.items()}
    exports = {LEDGER: LEDGER_EXPORT, **of_tables}
    counts = tuple(table.counted for table in exports.values())
    return Model(
        declaration,
        exports,
        (operations.totals(counts), operations.demand(), operations.LATENCY),
        (operations.days((*operations.DEMAND_COUNTS, "ANSWERED")),),
        ReportWords(
            twice=declaration.twice,
            twice_laws=tuple(law.name for law in declaration.judged if law.twice),
            verdicts={word: "took effect" if word == answers[-1] else f"was answered: {word}" for word in answers},
            ends={word: (f"is {word}", f"are {word}") for word in answers},
            figures=(("Answered", "ANSWERED"),),
            days_note="Answered: the request has a recorded answer.",
        ),
        plain=plain_of(declaration),
    )


KEPT_OF_LINES = {
    "deliveries": (
        *("outcome", "consumption_count", "sent", "finished", "claimed_by", "answer"),
        *("receive_count", "attempt_ms"),
    ),
    "accepted": ("sent", "copies"),
    "dropped": ("at",),
}
"""What travels of a line beside its message. The report's timelines read the last two of a delivery."""


def _source(number: int, name: str, table: ExportedTable | None, schema: Schema) -> Source:
    if table is not None:
        return Source(name, number, table.form, tuple(table.form.attributes), table)
    form = schema.delivery if name == "deliveries" else LINES[name]
    return Source(name, number, form, KEPT_OF_LINES.get(name, ()))


LEDGER_EXPORT = ExportedTable(
    key=("message_id",),
    form=LEDGER_ROW,
    subjects=(("message_id",),),
    counted="ledger_rows",
    known=frozenset((*LEDGER_ATTRIBUTES, "sends")),
)


def _exported(table: Table, declaration: Declaration) -> ExportedTable:
    """Return how a table is read. Attributes that its form does not name have any type."""
    declared = declaration.declared_tables[table.name]
    by_function = bool(declared.request and "." in declared.request)
    request = () if by_function or declared.request is None else (declared.request,)
    named = [table.key, *((each,) for each in request), *(tuple(name.split("/")) for name in table.names)]
    form = table.form.attributes
    asks = bool(table.lacking) or (by_function and not table.names)
    all_others = (OTHERS,) if not table.carried and (asks or by_function or declaration.law_names) else ()
    read = dict.fromkeys([*table.key, *form, *(table.carried or declared.needed), *all_others])
    times = (declared.time,) if declared.time else ()
    return ExportedTable(
        key=table.key,
        form=Form({name: form.get(name, ANY) for name in read}),
        subjects=tuple(dict.fromkeys(named)),
        counted=f"{table.name}_rows",
        asks=asks or any("." in name for name in table.names),
        wanted=dict.fromkeys(request, f"tables.{table.name}.request")
        | dict.fromkeys(times, f"tables.{table.name}.time"),
    )
