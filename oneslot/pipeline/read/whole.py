"""Functions of the consumer over its whole evidence: its own laws, and the requests that its rows name.

They run on the driver as in `oneslot check`, over a history that fits there. Each breach and each effect becomes a fact, so
that the rest of the audit treats it as every other.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from oneslot.declaration.declaration import Declaration
from oneslot.laws.evidence import Evidence, check, lacking
from oneslot.laws.schema import text_of
from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.read import logs, sources
from oneslot.pipeline.read.facts import FACT_COLUMNS
from oneslot.pipeline.read.history import History
from oneslot.pipeline.storage import literal
from oneslot.pipeline.vocabulary import Kind
from oneslot.runtime.stores.expressions import from_attributes

LARGEST_HISTORY = 500_000
"""Items of a history that these functions read: about 2 KB of memory each."""
NOT_JUDGED = "The consumer's own laws are not judged ({laws}): they read full exports of at most {largest:,} items."
NOT_READ = (
    "tables.{table}.request is a function, which reads full exports of at most {largest:,} items. "
    "Name the attribute that holds the request's id."
)


def fits(history: History) -> bool:
    """Return whether the history is full and small enough to be read as a whole."""
    return history.start is None and history.items <= LARGEST_HISTORY


def own_law_notes(history: History) -> list[str]:
    """Return the note that the own laws are not judged, if they are not."""
    laws = ", ".join(history.model.own_laws)
    return [NOT_JUDGED.format(laws=laws, largest=LARGEST_HISTORY)] if laws and not fits(history) else []


def facts_of_functions(spark: SparkSession, history: History, declaration: Declaration) -> DataFrame:
    """Return a fact for each breach of an own law, and for each effect that a function of a row names.

    Raises `AuditRefused` for a function that raises, and for one that must read a history that does not fit.
    """
    model = history.model
    rows: list[dict[str, Any]] = []
    if fits(history):
        evidence = read_evidence(spark, history, declaration)
        rows = [*_breaches(evidence, history, declaration), *_effects(evidence, history)]
    elif model.by_function:
        raise AuditRefused(NOT_READ.format(table=next(iter(model.by_function)), largest=LARGEST_HISTORY))
    usual = {"sign": 1, "code": 0, "number": 0, "link": 0}
    schema = ", ".join(f"{name} {kind}" for name, kind in FACT_COLUMNS.items())
    return spark.createDataFrame([tuple({**usual, **row}.get(name) for name in FACT_COLUMNS) for row in rows], schema)


def _breaches(evidence: Evidence, history: History, declaration: Declaration) -> Iterator[dict[str, Any]]:
    own = history.model.own_laws
    for law in declaration.judged:
        if law.name in own:
            with _named(f"The law {law.name} of {declaration.path or declaration.name}", "remove it from `laws`"):
                for breach in check(evidence, [law]):
                    yield {"key": breach.subject, "kind": int(Kind.BREACH), "code": own.index(law.name)}


def _effects(evidence: Evidence, history: History) -> Iterator[dict[str, Any]]:
    places = history.model.by_function
    with _named(f"The function in `request` of {' or '.join(places)}", "name an attribute"):
        for table, key, _, (request, at, _) in evidence.effects():
            if table.name in places:
                known = evidence.now if at is None else at or None
                fact = {"key": request or text_of(key), "kind": int(Kind.EFFECT), "number": places[table.name]}
                yield {**fact, "at": known}


@contextmanager
def _named(what: str, otherwise: str) -> Iterator[None]:
    """Raise `AuditRefused` with the place of an error. Its text may hold an attribute of a row, which may be personal."""
    try:
        yield
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}:{last.lineno}"
        raise AuditRefused(f"{what} raised {type(error).__name__} at {place}. Correct it, or {otherwise}.") from error


def read_evidence(spark: SparkSession, history: History, declaration: Declaration) -> Evidence:
    """Return the evidence of a full history. Malformed rows and lines are left out; the audit counts them."""
    ids = {name: _ids(spark, history, name) for name in ("accepted", "dead-letters", "dropped", "waiting")}
    rows = {name: _rows(spark, history, name) for name in history.exports}
    evidence = declaration.evidence(
        ledger={row["message_id"]: row for row in rows["ledger"] if "message_id" in row},
        **{name: table.by_key(_keyed(table.key, rows[name])) for name, table in declaration.schema.tables.items()},
        requests=ids["accepted"] if "accepted" in history.lines else None,
        quarantined=ids["dead-letters"] | ids["dropped"],
        deliveries=_deliveries(spark, history),
        waiting=ids["waiting"] if history.queue_known else None,
        now=history.end,
        retention_ms=history.context.retention_ms,
        forgotten_before=history.context.forgotten_before,
    )
    malformed = {(table, key) for table, key, _ in lacking(evidence)}
    sound = {
        name: {key: row for key, row in evidence.rows(name).items() if (name, text_of(key)) not in malformed}
        for name in evidence.tables
    }
    ledger = {key: row for key, row in evidence.ledger.items() if ("ledger", key) not in malformed}
    return declaration.evidence(
        ledger=ledger,
        **sound,
        **{name: getattr(evidence, name) for name in Evidence.__dataclass_fields__ if name not in _REPLACED},
    )


_REPLACED = ("ledger", "tables", "schema")


def _keyed(key: Iterable[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if all(name in row for name in key)]


def _rows(spark: SparkSession, history: History, table: str) -> list[dict[str, Any]]:
    paths = history.data_folders(table)
    lines = spark.read.text([*map(literal, paths)]).collect() if paths else []
    return [from_attributes(item) for line in lines if (item := _item(line.value))]


def _item(line: str) -> dict[str, Any] | None:
    try:
        item = json.loads(line)["Item"]
    except (ValueError, KeyError, TypeError):
        return None
    return item if isinstance(item, dict) else None


def _ids(spark: SparkSession, history: History, name: str) -> set[str]:
    files = history.lines.get(name)
    if not files:
        return set()
    lines = sources.read_log(spark, [*files], name).where("message_id IS NOT NULL")
    return {row.message_id for row in lines.select("message_id").collect()}


def _deliveries(spark: SparkSession, history: History) -> list[dict[str, Any]]:
    if not history.delivery_logs:
        return []
    lines = logs.sound_deliveries(sources.read_log(spark, history.delivery_logs, "deliveries"), history.delivered)
    found = lines.where(logs.finished_within(None, history.end) & lines["message_id"].isNotNull())
    return [row.asDict() for row in found.select(*sources.DELIVERIES.names).collect()]
