"""The audit's model of one consumer: its exports, what they say of a request, its laws, its tables and its words.

Every consumer has the ledger's laws. `oneslot.pipeline.effects` makes the model of a consumer from its declaration. One whose
rows say more names a function from its declaration to a `Model` as `tools.audit`; the appointments' is in `workload/audit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from oneslot.declaration.declaration import Declaration
from oneslot.pipeline.judge.measures import Measures, count
from oneslot.pipeline.judge.operations import Summary, Table
from oneslot.pipeline.judge.states import Shown
from oneslot.pipeline.judge.violations import LEDGER_LAWS, SOURCE_FINDINGS
from oneslot.pipeline.vocabulary import Kind, Verdict


@dataclass(frozen=True)
class ExportedTable:
    """How the rows of an exported table become facts.

    Attributes:
        schema: of an item; attributes outside it are never read.
        key: the attributes of the table's key.
        known: all attributes that a row may have; empty if it may have any.
        facts: items → facts; None for a table that only laws of the consumer's own read.
        counted: the measure that counts its rows.
        wanted: attributes that some row must have, with the name in the declaration that says so.
    """

    schema: StructType
    key: tuple[str, ...]
    known: frozenset[str] = frozenset()
    facts: Callable[[DataFrame], DataFrame] | None = None
    counted: str | None = None
    wanted: Mapping[str, str] = field(default_factory=dict)


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
        answers: the code of each outcome in the delivery log that is the consumer's.
        other_answer: the code of any other outcome; None if such a line is malformed.
        measures: the columns of verdicts.
        row_counts: the measures of `measures` that count facts of rows, beside the ledger's.
        shown: what rows show of a request.
        violations: what a row of measures can break beside the ledger's laws: name → SQL that is true for a breach.
        tables, summaries: the operations tables, the totals first.
        words: the report's.
        row_subject: the kind of thing that a row is which is judged as itself; None if the consumer has no such table.
        effect_subject: a request that a row names, and that was never seen.
        listing: a summary for the report.
        by_function: the number of each table whose rows name their requests by a function of the consumer.
        sentences: everything that a history can show, by name, in the order of the consumer's laws.
        own_laws: the laws that read the whole evidence at once, and not Spark's measures.
    """

    exports: Mapping[str, ExportedTable]
    answers: Mapping[str, int]
    other_answer: int | None
    measures: Measures
    row_counts: tuple[str, ...]
    shown: Shown
    violations: Mapping[str, str]
    tables: tuple[Table, ...]
    summaries: tuple[Summary, ...]
    words: Words
    row_subject: str | None = None
    effect_subject: str = "effect"
    listing: Listing | None = None
    by_function: Mapping[str, int] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)
    own_laws: tuple[str, ...] = ()

    @property
    def verdicts(self) -> tuple[str, ...]:
        """All verdicts, the answers first."""
        return (*self.words.verdicts, *map(str, Verdict))


def model_of(declaration: Declaration) -> Model:
    """Return the model of a declared consumer. Raises `BadInput` for a name in it that cannot be imported."""
    from oneslot.pipeline.effects import model_of_effects  # which imports this module

    build: Callable[[Declaration], Model] = declaration.tool("audit") or model_of_effects
    model = build(declaration)
    sentences = {**{law.name: law.sentence for law in declaration.judged}, **SOURCE_FINDINGS}
    own = tuple(name for name in sentences if name not in (*LEDGER_LAWS, *model.violations))
    # A breach is taken from today's evidence only.
    breaches = tuple(
        count(f"breach_{number}", Kind.BREACH, f"code = {number}", snapshot=True) for number, _ in enumerate(own)
    )
    return dataclasses.replace(
        model,
        measures=Measures((*model.measures.all, *breaches), model.measures.packed),
        violations={**model.violations, **{name: f"breach_{number} > 0" for number, name in enumerate(own)}},
        sentences=sentences,
        own_laws=own,
    )
