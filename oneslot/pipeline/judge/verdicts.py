"""The verdict on each request, from the measures of its key."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.measures import KEY
from oneslot.pipeline.judge.states import (
    Moment,
    begun_is_over,
    complete,
    dropped,
    forgotten,
    in_no_queue,
    quarantined_by_log,
    unfinished_is_over,
)
from oneslot.pipeline.judge.violations import ledger_violations
from oneslot.pipeline.model import Model
from oneslot.pipeline.vocabulary import FILE_PREFIX, ROW_PREFIX, UNIDENTIFIED_PREFIX, Subject, Verdict

OPEN_VERDICTS = (Verdict.IN_FLIGHT, Verdict.STUCK, Verdict.LOST, Verdict.QUARANTINED)
"""Verdicts that time, or a change of the queues, can change."""


def judge(measured: DataFrame, moment: Moment, model: Model) -> DataFrame:
    """Add `subject`, `verdict` (null unless the subject is a request) and `violations` (names, separated by spaces)."""
    marked = measured.withColumn("subject", subject(model))
    broken = [F.when(condition, F.lit(name)) for name, condition in violations(moment, model).items()]
    return marked.select(
        *KEY,
        "subject",
        F.when(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED), verdict(moment, model)).alias("verdict"),
        F.concat_ws(" ", *broken).alias("violations"),
        *model.measures.columns[len(KEY) :],
    )


def violations(moment: Moment, model: Model) -> Mapping[str, Column]:
    """Return all that a row of measures can break, by name, in the order of the consumer's laws."""
    own = {name: F.expr(broken) for name, broken in model.violations.items()}
    found = {**ledger_violations(moment, model.shown), **own}
    return {name: found[name] for name in model.sentences}


def is_open() -> Column:
    """Return true where a row must be judged again although none of its sources changed."""
    return (
        F.coalesce(F.col("verdict").isin(*OPEN_VERDICTS), F.lit(False))
        | (F.col("violations") != "")
        | (F.col("dead_letters") > 0)
        | (F.col("waiting") > 0)
    )


def subject(model: Model) -> Column:
    """Return the kind of thing that a row is about."""
    prefix = F.substring("key", 1, 1)
    seen = (F.col("ledger_rows") != 0) | (F.col("deliveries") > 0) | F.col("accepted_sent").isNotNull() | dropped()
    gone = (F.col("deliveries") == 0) & F.col("accepted_sent").isNull() & in_no_queue() & (F.col("rejected") == 0)
    for name in ("ledger_rows", *model.row_counts):
        gone = gone & (F.col(name) == 0)
    return (
        F.when(gone, F.lit(Subject.GONE))
        .when(prefix == ROW_PREFIX, F.lit(model.row_subject or "row"))
        .when(prefix == FILE_PREFIX, F.lit(Subject.FILE))
        .when(prefix == UNIDENTIFIED_PREFIX, F.lit(Subject.UNIDENTIFIED))
        .when(seen | (F.col("dead_letters") > 0) | (F.col("waiting") > 0), F.lit(Subject.REQUEST))
        .otherwise(F.lit(model.effect_subject))
    )


def verdict(moment: Moment, model: Model) -> Column:
    """Return the first verdict that applies, from the worst to the plainest."""
    shown = model.shown
    twice = F.expr(shown.twice) | (F.col("ledger_rows") > 1)
    old = forgotten(moment, shown)
    without_row = F.col("ledger_rows") == 0
    return (
        F.when(twice, F.lit(Verdict.DUPLICATE_EFFECT))
        .when(complete(), F.expr(shown.recorded))
        .when(F.col("dead_letters") > 0, F.lit(Verdict.QUARANTINED))
        .when(without_row & F.expr(shown.acted), F.expr(shown.told))
        .when(old & F.col("delivered_outcome").isNotNull(), F.expr(shown.logged))
        .when(dropped() & (F.col("waiting") == 0), F.lit(Verdict.DROPPED))
        .when(quarantined_by_log(moment), F.lit(Verdict.QUARANTINED))
        .when(begun_is_over(moment), F.lit(Verdict.STUCK))
        .when(old & in_no_queue(), F.lit(Verdict.FORGOTTEN))
        .when(unfinished_is_over(moment), F.lit(Verdict.LOST))
        .otherwise(F.lit(Verdict.IN_FLIGHT))
    )
