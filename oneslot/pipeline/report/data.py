"""The report's content as plain values, read from the tables that an audit wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.conclusion import SENTENCES
from oneslot.pipeline.judge.operations import DAY_MS, QUARTER_OF_AN_HOUR_MS, sent
from oneslot.pipeline.read.history import History
from oneslot.pipeline.report.lives import Life, lives
from oneslot.pipeline.vocabulary import Subject

FINE_STEPS_MS = {1_000: "1 second", 10_000: "10 seconds", 60_000: "1 minute"}
POINTS = 240
DAYS_SHOWN = 7
LISTED = 200
PERCENTILES = (50, 90, 99, 99.9)


@dataclass(frozen=True)
class Rush:
    """Requests that were sent in one step of time, with their deliveries and duplicates."""

    time: str
    requests: int
    deliveries: int
    duplicates: int


@dataclass(frozen=True)
class ReportData:
    """The content of the report. `rush_scope` names the requests of the rush curve if it does not cover all."""

    document: Mapping[str, Any]
    title_time: str
    invariants: tuple[tuple[str, str, int], ...]
    rush: tuple[Rush, ...]
    rush_step: str
    rush_scope: str
    latency: list[tuple[int, int]]
    lives: tuple[Life, ...]
    days: tuple[Mapping[str, Any], ...]
    practices: tuple[Mapping[str, Any], ...]
    findings: tuple[Mapping[str, Any], ...]

    def total(self, name: str) -> int:
        """Return a count of the table `days` over all its days."""
        return sum(day[name] for day in self.days)


def collect(
    judged: DataFrame, tables: Mapping[str, DataFrame], history: History, document: Mapping[str, Any]
) -> ReportData:
    """Return the report's content from the rows that an audit judged, its operations tables and its findings."""
    rush, step, scope = rush_curve(judged, tables["demand"], document)
    latency = tables["latency"].groupBy("LATENCY_MS").agg(F.sum("COUNT_OF_REQUESTS"))
    most = [F.desc("COUNT_OF_DID_NOT_FIT"), F.desc("COUNT_OF_REQUESTS"), F.asc("GP_CODE")]
    return ReportData(
        document=document,
        title_time=_time(document["end"], "%d %B %Y, %H:%M:%S UTC"),
        invariants=tuple((name, SENTENCES[name], count) for name, count in document["violations"].items()),
        rush=rush,
        rush_step=step,
        rush_scope=scope,
        latency=[(row[0], row[1]) for row in latency.orderBy("LATENCY_MS").collect()],
        lives=lives(judged, history),
        days=_rows(tables["days"].orderBy("DATE")),
        practices=_rows(tables["practices"].orderBy(*most).limit(LISTED)),
        findings=_rows(tables["findings"].limit(LISTED)),
    )


def rush_curve(judged: DataFrame, demand: DataFrame, document: Mapping[str, Any]) -> tuple[tuple[Rush, ...], str, str]:
    """Return requests by the time they were sent, the step of time in words, and the scope.

    The step is the finest that gives a readable number of points. Seconds and minutes come from the verdicts of a full audit;
    quarters of an hour from the table `demand`, which includes earlier audits, for the last days.
    """
    if document["start"] is None:
        requests = judged.where(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED) & sent().isNotNull())
        first, last = requests.agg(F.min(sent()), F.max(sent())).collect()[0]
        if first is None:
            return (), "", ""
        for step, words in FINE_STEPS_MS.items():
            if (last - first) / step <= POINTS:
                at = (F.floor(sent() / step) * step).alias("at")
                counted = requests.groupBy(at).agg(F.count("*"), F.sum("deliveries"), F.sum("deliveries_duplicate"))
                return _steps(counted, step), words, ""
    (last,) = demand.agg(F.max("QUARTER_HOUR")).collect()[0]
    if last is None:
        return (), "", ""
    names = ("COUNT_OF_REQUESTS", "COUNT_OF_DELIVERIES", "COUNT_OF_DUPLICATES")
    shown = demand.where(F.col("QUARTER_HOUR") > last - DAYS_SHOWN * DAY_MS)
    counted = shown.groupBy(F.col("QUARTER_HOUR").alias("at")).agg(*(F.sum(name) for name in names))
    return _steps(counted, QUARTER_OF_AN_HOUR_MS), "a quarter of an hour", f"of the last {DAYS_SHOWN} days"


def percentiles(latency: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Return [("50 %", milliseconds), ...] from sorted (milliseconds, requests); empty without a request."""
    total = sum(count for _, count in latency)
    found = []
    for wanted in PERCENTILES if total else ():
        seen = 0
        for milliseconds, count in latency:
            seen += count
            if seen * 100 >= wanted * total:
                found.append((f"{wanted:g} %", milliseconds))
                break
    return found


def _steps(counted: DataFrame, step: int) -> tuple[Rush, ...]:
    """Return rows (time, requests, deliveries, duplicates) in order, with empty steps between them and at both ends."""
    found = {row[0]: row[1:] for row in counted.orderBy("at").collect()}
    times = range(min(found) - step, max(found) + step + 1, step)
    form = "%Y-%m-%d %H:%M:%S"
    return tuple(Rush(_time(time, form), *found.get(time, (0, 0, 0))) for time in times)


def _rows(table: DataFrame) -> tuple[Mapping[str, Any], ...]:
    return tuple(row.asDict() for row in table.collect())


def _time(milliseconds: int, form: str) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime(form)
