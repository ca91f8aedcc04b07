"""Evidence → a verdict on each request, and the invariants that do not hold.

Each invariant of `appointments.invariants` that a history can show is one expression here, under the same name; a test
holds the two lists together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline.evidence import KEY, evidence_columns
from pipeline.vocabulary import (
    FILE_PREFIX,
    SLOT_PREFIX,
    UNIDENTIFIED_PREFIX,
    AppointmentStatus,
    Outcome,
    SlotStatus,
    Subject,
    Verdict,
)

SOURCE_FINDINGS = {
    "S1": "A table's export holds each item at most once.",
}
"""Findings about the sources themselves; the invariants are in `appointments.invariants`."""

OPEN_VERDICTS = (Verdict.IN_FLIGHT, Verdict.STUCK, Verdict.LOST, Verdict.QUARANTINED)
"""Verdicts that time, or another look at the queues, can change."""


@dataclass(frozen=True)
class Moment:
    """When and how the evidence is judged. Times are in milliseconds.

    Attributes:
        now: epoch ms; a lease that ended before is over.
        queue_known: the `waiting` source lists all that the queue holds, so what is nowhere else is lost.
        patience: how long a request may be unseen when the queue's content is not known. 4 days is SQS's own retention.
        retention: how long the ledger keeps a row; None if it never deletes. An older effect needs no row any more.
    """

    now: int
    queue_known: bool = False
    patience: int = 4 * 24 * 3600 * 1000
    retention: int | None = None


def judge(evidence: DataFrame, moment: Moment) -> DataFrame:
    """Add `subject`, `verdict` (null where the subject is no request) and `violations` (names, separated by spaces)."""
    marked = evidence.withColumn("subject", subject())
    broken = [F.when(condition, F.lit(name)) for name, condition in violations(moment).items()]
    return marked.select(
        *KEY,
        "subject",
        F.when(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED), verdict(moment)).alias("verdict"),
        F.concat_ws(" ", *broken).alias("violations"),
        *evidence_columns()[len(KEY) :],
    )


def is_open() -> Column:
    """Whether a row must be judged again though nothing changed for it."""
    return (
        F.coalesce(F.col("verdict").isin(*OPEN_VERDICTS), F.lit(False))
        | (F.col("violations") != "")
        | (F.col("dead_letters") > 0)
        | (F.col("waiting") > 0)
    )


def subject() -> Column:
    """What a row speaks of."""
    prefix = F.substring("key", 1, 1)
    seen = (F.col("ledger_rows") != 0) | (F.col("deliveries") > 0) | F.col("accepted_sent").isNotNull() | dropped()
    rows = ("ledger_rows", "expects_cancelled", "appointment_rows", "tombstones", "held_slots", "slot_rows", "holdings")
    gone = (F.col("deliveries") == 0) & F.col("accepted_sent").isNull() & nowhere() & (F.col("rejected") == 0)
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


def complete() -> Column:
    """The ledger says COMPLETE."""
    return F.col("ledger_complete") > 0


def made() -> Column:
    """There is an appointment that the request itself made, in whatever state it is now."""
    return (F.col("appointment_rows") > 0) & (F.col("appointment_status") != int(AppointmentStatus.TOMBSTONE))


def forgotten(at: Column, moment: Moment) -> Column:
    """Whether the ledger has rightly deleted its row of something done at `at`."""
    if moment.retention is None:
        return F.lit(False)
    gone = (F.col("ledger_rows") == 0) & (at + moment.retention < moment.now)
    return F.coalesce(gone, F.lit(False))


def dropped() -> Column:
    """A person deleted a copy from the dead-letter queue."""
    return F.col("dropped_at").isNotNull()


def nowhere() -> Column:
    """No queue holds the message, and nobody answers for that."""
    return (F.col("waiting") == 0) & (F.col("dead_letters") == 0) & ~dropped()


def unfinished_is_over(moment: Moment) -> Column:
    """A request was seen, is not complete, and nothing will bring it on."""
    seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
    never_begun = (F.col("ledger_rows") == 0) & seen.isNotNull() & nowhere()
    if moment.queue_known:
        return never_begun
    return never_begun & (F.col("deliveries_quarantined") == 0) & (seen + moment.patience < moment.now)


def begun_is_over(moment: Moment) -> Column:
    """The row is IN_PROGRESS, its lease has ended, and nothing will take it over."""
    patience = 0 if moment.queue_known else moment.patience
    over = F.col("ledger_lease_until") + patience < moment.now
    return (F.col("ledger_rows") > 0) & ~complete() & over & nowhere()


def begun_is_nowhere(moment: Moment) -> Column:
    """The row is IN_PROGRESS and no queue holds the message; where the queue is not known, its lease must be long over."""
    if moment.queue_known:
        seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
        return (F.col("ledger_rows") > 0) & ~complete() & seen.isNotNull() & nowhere()
    return begun_is_over(moment)


def verdict(moment: Moment) -> Column:
    """The first that applies, from the worst to the plainest."""
    effect_twice = (F.col("held_slots") > 1) | (F.col("appointment_rows") > 1) | (F.col("ledger_rows") > 1)
    status = F.col("appointment_status")
    by_outcome = outcome_verdict(F.col("ledger_outcome"))
    by_appointment = outcome_verdict(status)
    by_delivery = outcome_verdict(F.col("delivered_outcome"))
    cancelled = status.isin(int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE))
    old = forgotten(F.col("last_finished"), moment)
    return (
        F.when(effect_twice, F.lit(Verdict.DUPLICATE_EFFECT))
        .when(complete() & cancelled, F.lit(Verdict.CANCELLED))
        .when(complete(), by_outcome)
        .when(F.col("dead_letters") > 0, F.lit(Verdict.QUARANTINED))
        .when((F.col("ledger_rows") == 0) & made(), by_appointment)
        .when((F.col("ledger_rows") == 0) & (F.col("tombstones") > 0), F.lit(Verdict.CANCELLED))
        .when(old & F.col("delivered_outcome").isNotNull(), by_delivery)
        .when(dropped() & (F.col("waiting") == 0), F.lit(Verdict.DROPPED))
        .when(begun_is_over(moment), F.lit(Verdict.STUCK))
        .when(unfinished_is_over(moment), F.lit(Verdict.LOST))
        .when((F.col("ledger_rows") == 0) & nowhere() & (F.col("deliveries_quarantined") > 0), Verdict.QUARANTINED)
        .otherwise(F.lit(Verdict.IN_FLIGHT))
    )


def outcome_verdict(code: Column) -> Column:
    """A code of an outcome or of an appointment's status → the verdict of the same name. Unknown outcomes are stuck."""
    return (
        F.when(code == int(Outcome.BOOKED), F.lit(Verdict.BOOKED))
        .when(code == int(Outcome.WAITLIST), F.lit(Verdict.WAITLIST))
        .when(code.isin(int(Outcome.CANCELLED), int(Outcome.CANCELLED_OTHER)), F.lit(Verdict.CANCELLED))
        .when(code == int(Outcome.REFUSED), F.lit(Verdict.REFUSED))
        .otherwise(F.lit(Verdict.STUCK))
    )


def violations(moment: Moment) -> Mapping[str, Column]:
    """Each invariant that a history can show → whether this row breaks it."""
    status = F.col("appointment_status")
    booked = (F.col("appointment_rows") > 0) & (status == int(AppointmentStatus.BOOKED))
    waits = (F.col("appointment_rows") > 0) & (status == int(AppointmentStatus.WAITLIST))
    cancelled = (F.col("appointment_rows") > 0) & status.isin(
        int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE)
    )
    outcome = F.col("ledger_outcome")
    expected = (
        F.when(
            outcome == int(Outcome.BOOKED),
            (booked | cancelled) & (F.col("slot_differs") == 0) & (F.col("ledger_slot") != 0),
        )
        .when(outcome == int(Outcome.WAITLIST), waits | cancelled)
        .when(outcome == int(Outcome.CANCELLED), cancelled)
        .when(outcome == int(Outcome.REFUSED), cancelled | (F.col("appointment_rows") == 0))
        .otherwise(outcome == int(Outcome.CANCELLED_OTHER))
    )
    slot_is = F.col("slot_status")
    # With two appointments on one slot (I3), or two slots of one request (I1), the links are mixed into one value, which
    # says nothing about either: those findings speak for both.
    held_by_its_own = (F.col("holdings") > 1) | ((F.col("holdings") == 1) & (F.col("holder_differs") == 0))
    author_forgotten = forgotten(F.col("appointment_created"), moment)
    canceller_forgotten = forgotten(F.col("tombstone_created"), moment)
    two = F.when(F.col("claim_low") != F.col("claim_high"), F.lit(2))
    claims = F.greatest(F.lit(1), F.col("consumptions_seen"), F.bit_count("claims_seen"), two)
    return {
        "I1": F.col("held_slots") > 1,
        "I2": (unfinished_is_over(moment) | begun_is_nowhere(moment)) & ~forgotten(F.col("last_finished"), moment),
        "I3": F.col("holdings") > 1,
        "I4": ((slot_is == int(SlotStatus.BUSY)) & ~held_by_its_own)
        | (slot_is == int(SlotStatus.BROKEN))
        | (booked & (F.col("held_slots") <= 1) & (F.col("held_differs") != 0)),
        "I5": (complete() & ~expected) | ((F.col("expects_cancelled") > 0) & ~cancelled),
        "I5r": ~complete() & ((made() & ~author_forgotten) | ((F.col("tombstones") > 0) & ~canceller_forgotten)),
        "I6": (F.col("deliveries_done") > 0) & ~complete() & ~forgotten(F.col("last_finished"), moment),
        "I7": F.coalesce(F.col("answer_low") != F.col("answer_high"), F.lit(False)),
        "I9": begun_is_over(moment),
        "I10": (F.col("ledger_rows") > 0) & (F.col("ledger_consumptions") < claims),
        "I11": ((F.col("dead_letters") > 0) | dropped()) & made() & ~complete(),
        "S1": ~F.col("ledger_rows").isin(0, 1) | ~F.col("appointment_rows").isin(0, 1) | ~F.col("slot_rows").isin(0, 1),
    }
