"""The verdict on each request, from the measures of its key."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.measures import KEY, MEASURE_COLUMNS
from oneslot.pipeline.judge.states import (
    Moment,
    begun_is_over,
    complete,
    dropped,
    forgotten,
    in_no_queue,
    made,
    quarantined_by_log,
    unfinished_is_over,
)
from oneslot.pipeline.judge.violations import violations
from oneslot.pipeline.vocabulary import (
    FILE_PREFIX,
    SLOT_PREFIX,
    UNIDENTIFIED_PREFIX,
    AppointmentStatus,
    Outcome,
    Subject,
    Verdict,
)

OPEN_VERDICTS = (Verdict.IN_FLIGHT, Verdict.STUCK, Verdict.LOST, Verdict.QUARANTINED)
"""Verdicts that time, or a change of the queues, can change."""


def judge(measured: DataFrame, moment: Moment) -> DataFrame:
    """Add `subject`, `verdict` (null unless the subject is a request) and `violations` (names, separated by spaces)."""
    marked = measured.withColumn("subject", subject())
    broken = [F.when(condition, F.lit(name)) for name, condition in violations(moment).items()]
    return marked.select(
        *KEY,
        "subject",
        F.when(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED), verdict(moment)).alias("verdict"),
        F.concat_ws(" ", *broken).alias("violations"),
        *MEASURE_COLUMNS[len(KEY) :],
    )


def is_open() -> Column:
    """Return true where a row must be judged again although none of its sources changed."""
    return (
        F.coalesce(F.col("verdict").isin(*OPEN_VERDICTS), F.lit(False))
        | (F.col("violations") != "")
        | (F.col("dead_letters") > 0)
        | (F.col("waiting") > 0)
    )


def subject() -> Column:
    """Return the kind of thing that a row is about."""
    prefix = F.substring("key", 1, 1)
    seen = (F.col("ledger_rows") != 0) | (F.col("deliveries") > 0) | F.col("accepted_sent").isNotNull() | dropped()
    rows = (
        "ledger_rows",
        "expects_cancelled",
        "appointment_rows",
        "cancellations",
        "held_slots",
        "slot_rows",
        "holdings",
    )
    gone = (F.col("deliveries") == 0) & F.col("accepted_sent").isNull() & in_no_queue() & (F.col("rejected") == 0)
    for name in rows:
        gone = gone & (F.col(name) == 0)
    return (
        F.when(gone, F.lit(Subject.GONE))
        .when(prefix == SLOT_PREFIX, F.lit(Subject.SLOT))
        .when(prefix == FILE_PREFIX, F.lit(Subject.FILE))
        .when(prefix == UNIDENTIFIED_PREFIX, F.lit(Subject.UNIDENTIFIED))
        .when(seen | (F.col("dead_letters") > 0) | (F.col("waiting") > 0), F.lit(Subject.REQUEST))
        .otherwise(F.lit(Subject.APPOINTMENT))
    )


def verdict(moment: Moment) -> Column:
    """Return the first verdict that applies, from the worst to the plainest."""
    double_booked = (F.col("held_slots") > 1) | (F.col("appointment_rows") > 1) | (F.col("ledger_rows") > 1)
    status = F.col("appointment_status")
    by_outcome = outcome_verdict(F.col("ledger_outcome"))
    by_appointment = outcome_verdict(status)
    by_delivery = outcome_verdict(F.col("delivered_outcome"))
    cancelled = status.isin(int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE))
    old = forgotten(moment)
    return (
        F.when(double_booked, F.lit(Verdict.DUPLICATE_EFFECT))
        .when(complete() & cancelled, F.lit(Verdict.CANCELLED))
        .when(complete(), by_outcome)
        .when(F.col("dead_letters") > 0, F.lit(Verdict.QUARANTINED))
        .when((F.col("ledger_rows") == 0) & made(), by_appointment)
        .when((F.col("ledger_rows") == 0) & (F.col("cancellations") > 0), F.lit(Verdict.CANCELLED))
        .when(old & F.col("delivered_outcome").isNotNull(), by_delivery)
        .when(dropped() & (F.col("waiting") == 0), F.lit(Verdict.DROPPED))
        .when(quarantined_by_log(moment), F.lit(Verdict.QUARANTINED))
        .when(begun_is_over(moment), F.lit(Verdict.STUCK))
        .when(old & in_no_queue(), F.lit(Verdict.FORGOTTEN))
        .when(unfinished_is_over(moment), F.lit(Verdict.LOST))
        .otherwise(F.lit(Verdict.IN_FLIGHT))
    )


def outcome_verdict(code: Column) -> Column:
    """Return the verdict for a code of an outcome or an appointment's status. An unknown outcome is stuck."""
    return (
        F.when(code == int(Outcome.BOOKED), F.lit(Verdict.BOOKED))
        .when(code == int(Outcome.WAITLIST), F.lit(Verdict.WAITLIST))
        .when(code.isin(int(Outcome.CANCELLED), int(Outcome.CANCELLED_OTHER)), F.lit(Verdict.CANCELLED))
        .when(code == int(Outcome.REFUSED), F.lit(Verdict.REFUSED))
        .otherwise(F.lit(Verdict.STUCK))
    )
