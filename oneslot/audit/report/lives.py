"""The lives of the most eventful messages: every attempt in the delivery log, and every claim without a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.read import sources
from oneslot.audit.read.history import History
from oneslot.audit.read.logs import sound_deliveries
from oneslot.audit.vocabulary import SubjectKind
from oneslot.audit.write.columns import shown_id

LIVES = 8
# A producer that sends in a loop causes thousands of attempts, whose marks would hide each other.
ATTEMPTS_SHOWN = 200
CRASHED = "crashed"
LABEL_LENGTH = 12
# A takeover is more eventful than one more delivery.
TAKEOVER_WEIGHT = 3


@dataclass(frozen=True)
class LifeAttempt:
    """One attempt from begin to end, in milliseconds since the message was sent.

    A `crashed` attempt left no line: it was claimed at some time between begin and end.
    """

    outcome: str
    begin_ms: int
    end_ms: int
    words: str
    step: str


@dataclass(frozen=True)
class Life:
    """The attempts on one message. `label` is a short form of the id."""

    message_id: str
    label: str
    verdict: str
    claims: int
    seen: int
    attempts: tuple[LifeAttempt, ...]


def eventful(judged: DataFrame) -> DataFrame:
    """Return the messages with the most takeovers and deliveries."""
    events = F.greatest(F.col("ledger_consumptions") - 1, F.lit(0)) * TAKEOVER_WEIGHT + F.col("deliveries")
    more_than_one = (F.col("deliveries") > 1) | ((F.col("deliveries") > 0) & (F.col("ledger_consumptions") > 1))
    requests = judged.where((F.col("subject") == SubjectKind.REQUEST) & more_than_one)
    shown = shown_id(F.col("key"), F.col("key")).alias("shown")
    columns = ("key", "verdict", "ledger_consumptions", "deliveries", events.alias("events"))
    return requests.orderBy(events.desc(), "key").limit(LIVES).select(*columns, shown)


def lives(spark: SparkSession, found_eventful: list[dict[str, Any]], history: History) -> tuple[Life, ...]:
    """Return the eventful messages with every attempt on them."""
    paths = history.delivery_logs
    if not paths or not found_eventful:
        return ()
    worst = [Row(**row) for row in sorted(found_eventful, key=lambda row: (-row["events"], row["key"].encode()))]
    keys = [row.key for row in worst]
    log = sound_deliveries(sources.read_deliveries_of(spark, paths, keys), history.known_outcome)
    mine = log.where(F.col("message_id").isin(keys))
    in_order = Window.partitionBy("message_id").orderBy("finished", "sqs_message_id")
    first = mine.withColumn("place", F.row_number().over(in_order)).where(F.col("place") <= ATTEMPTS_SHOWN)
    lines = sorted(first.collect(), key=lambda line: line.place)
    found = []
    for number, row in enumerate(worst, 1):
        own = [line for line in lines if line.message_id == row.key]
        label = f"{number}. {row.shown[:LABEL_LENGTH]}{'…' if len(row.shown) > LABEL_LENGTH else ''}"
        # If some lines are not shown, or are in another day's history, a claim without a line need not have crashed.
        claims = min(row.ledger_consumptions, ATTEMPTS_SHOWN) if len(own) == row.deliveries else 0
        attempts = attempts_of(own, claims)
        found.append(Life(row.shown, label, row.verdict, row.ledger_consumptions, len(own), attempts))
    return tuple(found)


def attempts_of(lines: Sequence[Any], claims: int) -> tuple[LifeAttempt, ...]:
    """Return the attempts on a message from its log lines, sorted by their end, and its row's count of claims."""
    if not lines:
        return ()
    # The consumer's clock may be behind SQS's.
    start = min(min(line.sent, line.finished - (line.attempt_ms or 0)) for line in lines)
    attempts, logged = [], set[int]()
    for line in lines:
        took = line.attempt_ms or 0
        number = line.consumption_count or 0
        # A duplicate's line names the finished claim that it found, and has no claim of its own.
        claimed = number if line.claimed_by and line.outcome != "duplicate" else 0
        takeover = claimed > 1 and claimed not in logged
        logged |= {number}
        attempts.append(
            LifeAttempt(
                line.outcome,
                line.finished - took - start,
                line.finished - start,
                f"{line.outcome}: receive {line.receive_count or 1}"
                + (f", claim {claimed}" if claimed else "")
                + (f", {took:,} ms" if took else ""),
                f"claim {claimed} took over: {line.outcome}" if takeover else line.outcome,
            )
        )
    attempts += _crashed(attempts, {number for number in logged if number}, claims, lines, start)
    return tuple(sorted(attempts, key=lambda attempt: (attempt.end_ms, attempt.outcome != CRASHED)))


def _crashed(
    seen: list[LifeAttempt], logged: set[int], claims: int, lines: Sequence[Any], start: int
) -> list[LifeAttempt]:
    """Return the claims that are counted and have no line: their process crashed, or the line was lost."""
    found = []
    # A failed attempt released its claim, and its line does not name it.
    failed = sum(line.outcome == "failed" for line in lines)
    for number in [number for number in range(1, claims + 1) if number not in logged][failed:]:
        later = [
            attempt.begin_ms
            for attempt, line in zip(seen, lines, strict=True)
            if line.claimed_by and (line.consumption_count or 0) > number and line.outcome != "duplicate"
        ]
        end = min(later, default=max(line.finished for line in lines) - start)
        begin = max((attempt.end_ms for attempt in seen if attempt.end_ms <= end), default=0)
        words = f"claim {number} left no line: its process crashed in this interval, or its line was lost"
        found.append(LifeAttempt(CRASHED, begin, end, words, f"claim {number} crashed"))
    return found
