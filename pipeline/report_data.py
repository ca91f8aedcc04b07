"""What the report shows, as plain values read from the tables that an audit wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline import outputs, sources
from pipeline.conclusion import SENTENCES
from pipeline.history import History
from pipeline.operations import QUARTER_OF_AN_HOUR_MS, sent
from pipeline.vocabulary import Subject

FINE_STEPS_MS = {
    1_000: "1 second",
    10_000: "10 seconds",
    60_000: "1 minute",
    QUARTER_OF_AN_HOUR_MS: "a quarter of an hour",
}
POINTS = 240
LIVES = 6
LISTED = 200


@dataclass(frozen=True)
class Rush:
    """Requests that were sent in one step of time, and what became of them on the wire."""

    time: str
    requests: int
    deliveries: int
    duplicates: int


@dataclass(frozen=True)
class Attempt:
    """One delivery attempt."""

    outcome: str
    after_ms: int
    words: str


@dataclass(frozen=True)
class Life:
    """All that happened to one message. `label` is short; ids are long."""

    message_id: str
    label: str
    verdict: str
    claims: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class ReportData:
    """Everything in the report."""

    document: Mapping[str, Any]
    title_time: str
    invariants: tuple[tuple[str, str, int], ...]
    rush: tuple[Rush, ...]
    rush_step: str
    latency: list[tuple[int, int]]
    lives: tuple[Life, ...]
    practices: tuple[Mapping[str, Any], ...]
    findings: tuple[Mapping[str, Any], ...]


def collect(spark: SparkSession, folder: str, history: History, document: Mapping[str, Any]) -> ReportData:
    """Read an audit's tables. `folder` is where they are now."""
    judged = spark.read.parquet(f"{folder}/{outputs.VERDICTS}")
    rush, step = rush_curve(judged)
    latency = spark.read.parquet(f"{folder}/operations/latency").groupBy("LATENCY_MS").agg(F.sum("COUNT_OF_REQUESTS"))
    return ReportData(
        document=document,
        title_time=_time(document["end"], "%d %B %Y, %H:%M:%S UTC"),
        invariants=tuple((name, SENTENCES[name], count) for name, count in document["violations"].items()),
        rush=rush,
        rush_step=step,
        latency=[(row[0], row[1]) for row in latency.orderBy("LATENCY_MS").collect()],
        lives=lives(spark, judged, history),
        practices=practices(spark, folder),
        findings=tuple(row.asDict() for row in spark.read.parquet(f"{folder}/findings").limit(LISTED).collect()),
    )


def rush_curve(judged: DataFrame) -> tuple[tuple[Rush, ...], str]:
    """Requests by when they were sent, in the finest step that gives a readable number of points."""
    requests = judged.where(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED) & sent().isNotNull())
    first, last = requests.agg(F.min(sent()), F.max(sent())).collect()[0]
    if first is None:
        return (), ""
    step = next((step for step in FINE_STEPS_MS if (last - first) / step <= POINTS), QUARTER_OF_AN_HOUR_MS)
    at = (F.floor(sent() / step) * step).alias("at")
    counted = requests.groupBy(at).agg(F.count("*"), F.sum("deliveries"), F.sum("deliveries_duplicate")).orderBy("at")
    found = {row[0]: row for row in counted.collect()}
    # Steps in which nothing was sent are part of the curve.
    times = range(first // step * step, last // step * step + 1, step)
    rows = [(time, *(found[time][1:] if time in found else (0, 0, 0))) for time in times]
    return tuple(Rush(_time(time, "%Y-%m-%d %H:%M:%S"), *counts) for time, *counts in rows), FINE_STEPS_MS[step]


def lives(spark: SparkSession, judged: DataFrame, history: History) -> tuple[Life, ...]:
    """The messages with the most takeovers and deliveries, and every attempt on them that the log has."""
    paths = history.lines.get("deliveries")
    if not paths:
        return ()
    eventful = F.greatest(F.col("ledger_consumptions") - 1, F.lit(0)) * 3 + F.col("deliveries")
    worst = (
        judged.where((F.col("subject") == Subject.REQUEST) & (F.col("deliveries") > 1))
        .orderBy(eventful.desc(), "key")
        .limit(LIVES)
        .select("key", "verdict", "ledger_consumptions")
        .collect()
    )
    log = sources.read_lines(spark, list(paths), sources.TIMELINE).where(
        F.col("message_id").isin([w.key for w in worst])
    )
    lines = log.orderBy("finished", "sqs_message_id").collect() if worst else []
    found = []
    for number, row in enumerate(worst, 1):
        mine = [line for line in lines if line.message_id == row.key]
        start = min((line.sent for line in mine), default=0)
        attempts = tuple(Attempt(line.outcome, line.finished - start, _words(line)) for line in mine)
        label = f"{number}. {row.key[:12]}{'…' if len(row.key) > 12 else ''}"  # noqa: PLR2004
        found.append(Life(row.key, label, row.verdict, row.ledger_consumptions, attempts))
    return tuple(found)


def practices(spark: SparkSession, folder: str) -> tuple[Mapping[str, Any], ...]:
    """The practices with the most requests that did not fit, then with the most requests: demand beside what they offer."""
    demand = (
        spark.read.parquet(f"{folder}/operations/demand")
        .where(F.col("GP_CODE") != "")
        .groupBy("GP_CODE")
        .agg(*(F.sum(name).alias(name) for name in ("COUNT_OF_REQUESTS", "BOOKED", "WAITLIST", "COUNT_OF_DUPLICATES")))
    )
    offered = (
        spark.read.parquet(f"{folder}/operations/utilisation")
        .groupBy("GP_CODE")
        .agg(F.sum("COUNT_OF_SLOTS").alias("slots"), F.sum("COUNT_OF_BUSY_SLOTS").alias("busy"))
    )
    joined = demand.join(offered, on="GP_CODE", how="left").fillna(0)
    rows = joined.orderBy(F.desc("WAITLIST"), F.desc("COUNT_OF_REQUESTS"), "GP_CODE").limit(LISTED).collect()
    return tuple(row.asDict() for row in rows)


def _words(line: Any) -> str:
    took = f", {line.attempt_ms:,} ms" if line.attempt_ms is not None else ""
    count = f"receive {line.receive_count or 1}"
    claim = f", claim {line.consumption_count}" if line.consumption_count else ""
    return f"{line.outcome}: {count}{claim}{took}"


def _time(milliseconds: int, form: str) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime(form)
