"""The audit's model of a declared consumer: which rows name a request, and how many an outcome has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyspark.sql import DataFrame

from oneslot.declaration.declaration import Declaration, DeclaredTable
from oneslot.errors import BadInput
from oneslot.pipeline.columns import coded, quoted, worded
from oneslot.pipeline.judge import operations
from oneslot.pipeline.judge.measures import EFFECTS_AT, LEDGER_MEASURES, LOG_PACKED, Measures, count, log_measures
from oneslot.pipeline.judge.states import Shown
from oneslot.pipeline.model import ExportedTable, Model, Words
from oneslot.pipeline.read import tables
from oneslot.pipeline.read.sources import LEDGER, LEDGER_ATTRIBUTES, LEDGER_KEY, attributes
from oneslot.pipeline.vocabulary import Kind, Verdict
from oneslot.runtime.consumer.delivery_log import LONGEST_OUTCOME

COMPLETE = "complete"
"""The outcome of an answer that names none, and the verdict on a request of which only its effects tell."""
ONE_ROW = "ledger_rows = 1"
"""Where an export holds a request's row twice (S1), the sum of their codes means nothing."""
FIRST_CODE = 10
"""Codes of outcomes begin above the library's own."""


def model_of_effects(declaration: Declaration) -> Model:
    """Return the model of a consumer. Raises `BadInput` for an outcome that is a verdict's name, such as `lost`."""
    effects = {name: table for name, table in declaration.declared_tables.items() if table.request}
    codes = _codes(declaration, effects)
    other = None if declaration.outcomes else codes[COMPLETE]
    counts = tuple(f"{name}_rows" for name in effects)
    rows = tuple(count(f"{name}_rows", Kind.EFFECT, f"number = {place}") for place, name in enumerate(effects))
    packed = (("ledger_complete", "ledger_rows"), *LOG_PACKED)
    counted = (*operations.DEMAND_COUNTS, "ANSWERED")
    return Model(
        exports={
            "ledger": ExportedTable(
                LEDGER,
                LEDGER_KEY,
                LEDGER_ATTRIBUTES,
                partial(_ledger_facts, declaration=declaration, codes=codes, other=other),
                "ledger_rows",
            ),
            **{name: _exported(name, table, [*effects]) for name, table in declaration.declared_tables.items()},
        },
        answers=codes,
        other_answer=other,
        measures=Measures((*LEDGER_MEASURES, *rows, EFFECTS_AT, *log_measures(codes.values())), packed),
        row_counts=counts,
        by_function={name: place for place, name in enumerate(effects) if "." in (effects[name].request or "")},
        shown=_shown(effects, codes),
        violations=_violations(effects, codes),
        tables=(operations.totals(("ledger_rows", *counts)), operations.DEMAND, operations.LATENCY),
        summaries=(operations.days(counted),),
        words=Words(
            twice=declaration.twice,
            verdicts={word: "took effect" if word == COMPLETE else f"was answered: {word}" for word in codes},
            ends={word: (f"is {word}", f"are {word}") for word in codes},
            figures=(("Answered", "ANSWERED"),),
            days_note="Answered: the request has a recorded answer.",
        ),
    )


def _codes(declaration: Declaration, effects: dict[str, DeclaredTable]) -> dict[str, int]:
    of_tables = [outcome for table in effects.values() for outcome in table.outcomes]
    words = dict.fromkeys([*(declaration.outcomes or of_tables), COMPLETE])
    if taken := [word for word in words if word in set(map(str, Verdict))]:
        raise BadInput(
            f"{declaration.path or declaration.name}: the outcome {taken[0]!r} is also a verdict of the audit. "
            "Give it another name, in the consumer's results as well."
        )
    return {word: FIRST_CODE + number for number, word in enumerate(words)}


def _exported(name: str, table: DeclaredTable, effects: list[str]) -> ExportedTable:
    if table.request is None or "." in table.request:
        return ExportedTable(attributes(table.key), table.key)
    wanted = {table.request: f"tables.{name}.request"} | ({table.time: f"tables.{name}.time"} if table.time else {})
    return ExportedTable(
        attributes([table.request], [table.time] if table.time else []),
        table.key,
        facts=partial(tables.effect_facts, place=effects.index(name), request=table.request, time=table.time),
        counted=f"{name}_rows",
        wanted=wanted,
    )


def _ledger_facts(items: DataFrame, declaration: Declaration, codes: dict[str, int], other: int | None) -> DataFrame:
    """Return the ledger's facts. An answer that repeats another request's id is not this request's, so it has no code."""
    named = {outcome.request for outcome in declaration.outcomes.values() if outcome.request}
    result = ", ".join(f"`{name}` string" for name in dict.fromkeys(["outcome", *sorted(named)]))
    word = f"substring(coalesce(result.outcome, '{COMPLETE}'), 1, {LONGEST_OUTCOME})"
    by_word: dict[str, int | str] = {
        name: f"CASE WHEN result.`{outcome.request}` = key THEN {codes[name]} END" if outcome.request else codes[name]
        for name, outcome in declaration.outcomes.items()
    }
    known = coded(word, by_word or codes)
    of_other = "NULL" if other is None else str(other)
    # Without any attribute of a result there is none.
    return tables.ledger_facts(items, result, f"CASE WHEN result IS NOT NULL THEN coalesce({known}, {of_other}) END")


def _shown(effects: dict[str, DeclaredTable], codes: dict[str, int]) -> Shown:
    words = {code: word for word, code in codes.items()}
    acted = _any(f"{name}_rows > 0" for name in effects)
    # A table of one outcome tells which it was.
    certain = " ".join(
        f"WHEN {name}_rows > 0 THEN {quoted(table.outcomes[0])}"
        for name, table in effects.items()
        if len(table.outcomes) == 1
    )
    logged = worded("delivered_outcome", words, Verdict.STUCK)
    return Shown(
        made=acted,
        acted=acted,
        committed_at="greatest(effects_at, first_done)",
        twice=_any(f"{name}_rows > {_most(table)}" for name, table in effects.items() if _most(table)),
        reversed="false",
        answered=f"(NOT {ONE_ROW} OR ledger_outcome = delivered_outcome)",
        recorded=worded("ledger_outcome", words, Verdict.STUCK),
        told=f"CASE {certain} WHEN delivered_outcome IS NOT NULL THEN {logged} ELSE '{COMPLETE}' END",
        logged=logged,
    )


def _most(table: DeclaredTable) -> int | None:
    """Return how many rows of the table may name one request; None for any number."""
    return 1 if table.rows is None and table.key == (table.request,) else table.rows


def _violations(effects: dict[str, DeclaredTable], codes: dict[str, int]) -> dict[str, str]:
    judged = {name: table for name, table in effects.items() if table.rows is not None}
    of_key = [f"{name}_rows" for name, table in effects.items() if table.key == (table.request,)]
    found = {"S1": _any(f"{name} NOT IN (0, 1)" for name in ("ledger_rows", *of_key))}
    if judged:
        found["I12"] = _any(_rows_differ(name, table, codes) for name, table in judged.items())
    return found


def _rows_differ(name: str, table: DeclaredTable, codes: dict[str, int]) -> str:
    """Return SQL that is true where too many rows name the request, or not those that its outcome has."""
    too_many = f"{name}_rows > {table.rows}"
    if not table.outcomes:
        return too_many
    with_rows = ", ".join(str(codes[outcome]) for outcome in table.outcomes)
    due = f"CASE WHEN ledger_outcome IN ({with_rows}) THEN {table.rows} ELSE 0 END"
    return f"({too_many} OR ({ONE_ROW} AND ledger_outcome >= {FIRST_CODE} AND {name}_rows != {due}))"


def _any(conditions: Iterable[str]) -> str:
    found = list(conditions)
    return f"({' OR '.join(found)})" if found else "false"
