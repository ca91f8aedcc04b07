"""Items of exports with their signs, and rows of the ledger and of a table of effects as facts."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import absent, bad_number, number, reserved, text, zero
from oneslot.pipeline.read.facts import LARGEST_COUNT, LATEST_EPOCH_MS, fact, facts_or_reject, first_problem
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.vocabulary import IN_PROGRESS, UNKNOWN_OUTCOME, Kind, Problem


def images(changes: DataFrame, start: int, end: int) -> DataFrame:
    """Return the items of an incremental export with a sign: -1 for an old image, +1 for a new one.

    `start` and `end` (epoch ms) are the export's window. A change outside it is marked, and rejected later.
    """
    written = F.col("Metadata.WriteTimestampMicros.N").try_cast("bigint")
    outside = F.coalesce((written < start * 1000) | (written >= end * 1000), F.lit(False))
    empty = F.col("OldImage").isNull() & F.col("NewImage").isNull()
    # A line outside the window is rejected once: by its new image if it has one, else by its old one.
    taken_back = F.col("OldImage").isNotNull() & ~(outside & F.col("NewImage").isNotNull())
    old = F.when(taken_back, F.struct(F.lit(-1).alias("sign"), F.col("OldImage").alias("Item")))
    # A line without images is kept once, so that it is rejected and counted.
    new = F.when(
        F.col("NewImage").isNotNull() | empty, F.struct(F.lit(1).alias("sign"), F.col("NewImage").alias("Item"))
    )
    both = changes.select(F.explode(F.array(old, new)).alias("image"), outside.alias("outside"), CORRUPT, PATH)
    return both.where(F.col("image").isNotNull()).select("image.Item", "image.sign", "outside", CORRUPT, PATH)


def whole_items(items: DataFrame) -> DataFrame:
    """Return the items of a full export with the sign +1."""
    return items.select("Item", F.lit(1).alias("sign"), F.lit(False).alias("outside"), CORRUPT, PATH)


def ledger_facts(
    items: DataFrame,
    result: str,
    code: str,
    link: Callable[[], Column] = zero,
    *others: Callable[[], Column],
) -> DataFrame:
    """Return facts of the ledger's rows.

    `result` is the schema of a recorded answer. `code` is SQL for its code over `key` and `result`, null for an answer that is
    not the consumer's. `link` is the hash of what it names. `others` are further facts, null where a row has none.
    """
    read = items.select(
        text("message_id").alias("key"),
        text("status").alias("status"),
        F.from_json(F.when(text("status") == "COMPLETE", text("result")), result).alias("result"),
        *(number(name).alias(name) for name in ("consumption_count", "updated", "lease_until")),
        bad_number(consumption_count=LARGEST_COUNT, updated=LATEST_EPOCH_MS, lease_until=LATEST_EPOCH_MS).alias("bad"),
        *("sign", "outside", CORRUPT, PATH),
    )
    ledger = fact(
        F.col("key"),
        Kind.LEDGER,
        sign=F.col("sign"),
        code=F.expr(f"CASE WHEN status = 'COMPLETE' THEN coalesce({code}, {UNKNOWN_OUTCOME}) ELSE {IN_PROGRESS} END"),
        number=F.col("consumption_count"),
        # The time from which no consumer holds the row. A released claim has a lease in the past and the time of the release.
        until=F.when(F.col("status") != "COMPLETE", F.greatest("lease_until", "updated")),
        link=link(),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("key", "status", "consumption_count", "updated"),
            Problem.UNKNOWN_VALUE: f"status NOT IN ('IN_PROGRESS', 'COMPLETE') OR {reserved('key')}",
        }
    )
    return facts_or_reject(read, problem, ledger, *(other() for other in others))


def effect_facts(items: DataFrame, place: int, request: str, time: str | None) -> DataFrame:
    """Return facts of a table's rows: the request that the attribute `request` names, and the time of the commit.

    `place` is the table's number among the tables of effects.
    """
    read = items.select(
        text(request).alias("key"),
        (number(time) if time else F.lit(None)).alias("at"),
        (bad_number(**{time: LATEST_EPOCH_MS}) if time else F.lit(False)).alias("bad"),
        *("sign", "outside", CORRUPT, PATH),
    )
    effect = fact(F.col("key"), Kind.EFFECT, sign=F.col("sign"), number=F.lit(place), at=F.col("at"))
    problem = first_problem(
        {Problem.MISSING_ATTRIBUTE: absent("key"), Problem.UNKNOWN_VALUE: reserved("key")},
    )
    return facts_or_reject(read, problem, effect)
