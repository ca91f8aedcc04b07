"""The report's content as plain values, read from the tables that an audit wrote."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from operator import itemgetter
from typing import Any

from oneslot.audit.judge.stage import EXTRA, Judged
from oneslot.audit.model import Model
from oneslot.audit.operations import DAY_MS, QUARTER_OF_AN_HOUR_MS, SECOND_MS, percentiles
from oneslot.audit.read.history import History
from oneslot.audit.report.lives import Life, lives
from oneslot.audit.settings import AuditSettings
from oneslot.audit.write.tables import WrittenTable

FINE_STEPS_MS = {SECOND_MS: "1 second", 10_000: "10 seconds", 60_000: "1 minute"}
POINTS = 240
DAYS_SHOWN = 7
LISTED = 200
Counts = Sequence[Mapping[str, Any]]
Curve = tuple[tuple[Any, ...], ...]
"""Steps of time: each has its begin, and a count for each line of a plot."""
PERCENTILES = {"50 %": 500, "90 %": 900, "99 %": 990, "99.9 %": 999}


@dataclass(frozen=True)
class ReportData:
    """The content of the report.

    Attributes:
        rush: deliveries, requests and duplicates by the time of sending. `rush_scope` names the requests if these are not all.
        drain: the requests that waited, were sent and were answered; empty unless this audit read when each was answered.
        run: what was audited and how, by name.
        listed: the rows of the model's listing.
    """

    document: Mapping[str, Any]
    title_time: str
    invariants: tuple[tuple[str, str, int], ...]
    rush: Curve
    rush_step: str
    rush_scope: str
    drain: Curve
    run: Mapping[str, str]
    latency: list[tuple[int, int]]
    lives: tuple[Life, ...]
    days: tuple[Mapping[str, Any], ...]
    listed: tuple[Mapping[str, Any], ...]
    findings: tuple[Mapping[str, Any], ...]
    model: Model

    def total(self, name: str) -> int:
        """Return a count of the table `days` over all its days."""
        return sum(day[name] for day in self.days)


def run_facts(history: History, settings: AuditSettings, layers: Sequence[str], spark_version: str) -> dict[str, str]:
    """Return which run this is, of which tables, by which versions and with which settings."""
    form = "%d %B %Y, %H:%M:%S UTC"
    since = "full" if history.start is None else f"changes since {_time(history.start, form)}"
    try:
        version = metadata.version("oneslot")
    except metadata.PackageNotFoundError:  # Glue reads the code from a zip
        version = "from a zip, without its version"
    retention = history.context.retention_ms
    kept = f"for {retention // SECOND_MS:,} s" if retention else "for ever"
    limits = f"patience {settings.patience_seconds:,} s, at most {settings.reject_share:g} of all lines unreadable"
    return {
        "Run": layers[-1].split("/")[0],
        "Continues": ", ".join(layer.split("/")[0] for layer in layers[:-1]) or "no earlier run",
        "Tables": ", ".join(history.exports[name].table_arn.rpartition("/")[2] for name in sorted(history.exports)),
        "Exports": f"{since}, as of {_time(history.end, form)}",
        "Version": f"oneslot {version}, Spark {spark_version}",
        "Settings": f"{limits}, ledger rows kept {kept}",
    }


def collect(
    answer: Judged,
    tables: Mapping[str, WrittenTable],
    *,
    summaries: Mapping[str, list[dict[str, Any]]],
    findings: Sequence[Mapping[str, Any]],
    history: History,
    document: Mapping[str, Any],
    run: Mapping[str, str],
) -> ReportData:
    """Return the report's content from what the tasks answered, and what the audit wrote."""
    counts = ("COUNT_OF_REQUESTS", "COUNT_OF_DELIVERIES", "COUNT_OF_DUPLICATES")
    quarters = tables["demand"].sums(("QUARTER_HOUR",), counts)
    seconds, answers = (answer.rows(EXTRA + number) for number in range(2))
    rush, step, scope = rush_curve(seconds, quarters)
    said = history.model.sentences
    waits = tables["latency"].sums(("LATENCY_MS",), ("COUNT_OF_REQUESTS",))
    return ReportData(
        document=document,
        title_time=_time(document["end"], "%d %B %Y, %H:%M:%S UTC"),
        invariants=tuple((name, said[name], count) for name, count in document["violations"].items()),
        rush=rush,
        rush_step=step,
        rush_scope=scope,
        drain=drain_curve(seconds, answers),
        run=run,
        latency=[(row["LATENCY_MS"], row["COUNT_OF_REQUESTS"]) for row in waits],
        lives=lives(answer, history.model.declaration),
        days=tuple(summaries["days"]),
        listed=tuple(listed(summaries, history.model)),
        findings=tuple(findings[:LISTED]),
        model=history.model,
    )


def listed(summaries: Mapping[str, list[dict[str, Any]]], model: Model) -> list[dict[str, Any]]:
    """Return the first rows of the model's listing, in its order."""
    if model.listing is None:
        return []
    rows = summaries[model.listing.summary]
    for name in reversed(model.listing.order):  # a stable sort, the most important column last
        rows = sorted(rows, key=itemgetter(name.removeprefix("-")), reverse=name.startswith("-"))
    return rows[:LISTED]


def rush_curve(seconds: Counts, quarters: Counts) -> tuple[Curve, str, str]:
    """Return deliveries, requests and duplicates by the time of sending, the step of time in words, and the scope.

    The step is the finest that gives a readable number of points. Seconds and minutes come from the verdicts of a full audit;
    quarters of an hour from the table `demand`, which includes earlier audits, for the last days.
    """
    counts = [(row["AT"], row["deliveries"], row["requests"], row["duplicates"]) for row in seconds]
    if (step := _finest(counts)) is not None:
        return tuple(_steps(counts, step)), FINE_STEPS_MS[step], ""
    if not quarters:
        return (), "", ""
    last = max(row["QUARTER_HOUR"] for row in quarters)
    shown = [
        (row["QUARTER_HOUR"], row["COUNT_OF_DELIVERIES"], row["COUNT_OF_REQUESTS"], row["COUNT_OF_DUPLICATES"])
        for row in quarters
        if row["QUARTER_HOUR"] > last - DAYS_SHOWN * DAY_MS
    ]
    return tuple(_steps(shown, QUARTER_OF_AN_HOUR_MS)), "a quarter of an hour", f"of the last {DAYS_SHOWN} days"


def drain_curve(seconds: Counts, answers: Counts) -> Curve:
    """Return how many requests waited, were sent and were answered, in the finest step of time that is readable."""
    counts = [(row["AT"], row["requests"], 0) for row in seconds] + [(row["AT"], 0, row["requests"]) for row in answers]
    step = _finest(counts)
    if step is None or not answers:
        return ()
    found, sent, answered = [], 0, 0
    for time, sent_then, answered_then in _steps(counts, step):
        sent, answered = sent + sent_then, answered + answered_then
        found.append((time, sent - answered, sent, answered))
    return tuple(found)


def named_percentiles(latency: list[tuple[int, int]]) -> list[tuple[str, int]]:
    """Return [("50 %", milliseconds), ...] from (milliseconds, requests); empty without a request."""
    return [*zip(PERCENTILES, percentiles(dict(latency), PERCENTILES.values()), strict=False)]


def _finest(counts: Sequence[tuple[int, ...]]) -> int | None:
    """Return the finest step of time that gives a readable number of points; None if there is none."""
    times = [at for at, *_ in counts]
    return next((step for step in FINE_STEPS_MS if times and (max(times) - min(times)) / step <= POINTS), None)


def _steps(counts: Sequence[tuple[int, ...]], step: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows (time, counts) added up to steps in order, with empty ones between and at both ends."""
    found: defaultdict[int, list[int]] = defaultdict(lambda: [0] * (len(counts[0]) - 1))
    for at, *more in counts:
        found[at // step] = [one + other for one, other in zip(found[at // step], more, strict=True)]
    for number in range(min(found) - 1, max(found) + 2):
        yield _time(number * step, "%Y-%m-%d %H:%M:%S"), *found[number]


def _time(milliseconds: int, form: str) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime(form)
