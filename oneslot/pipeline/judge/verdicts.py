"""Evidence → a verdict on each request, and the invariants that do not hold.

Each invariant of `appointments.invariants` that a history can show is one expression here, under the same name; a test
holds the two lists together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.evidence import EVIDENCE_COLUMNS, KEY
from oneslot.pipeline.vocabulary import (
    FILE_PREFIX,
    SLOT_PREFIX,
    UNIDENTIFIED_PREFIX,
    AppointmentStatus,
    Delivered,
    Outcome,
    SlotStatus,
    Subject,
    Verdict,
)

SOURCE_FINDINGS = {
    "S1": "A table's export holds each item at most once.",
}
"""Findings about the sources themselves; the invariants are in `appointments.invariants`."""

_CANCELLED = (int(Outcome.CANCELLED), int(Outcome.CANCELLED_OTHER))
OPEN_VERDICTS = (Verdict.IN_FLIGHT, Verdict.STUCK, Verdict.LOST, Verdict.QUARANTINED)
"""Verdicts that time, or another look at the queues, can change."""


@dataclass(frozen=True)
class Moment:
    """When and how the evidence is judged. Times are in milliseconds.

    Attributes:
        now: epoch ms; a lease that ended before is over.
        queue_known: the `waiting` source lists all that the queue holds, so what is nowhere else is lost.
        dead_letters_known: the `dead-letters` source lists all that the dead-letter queue holds.
        patience: how long a request may be unseen when the queue's content is not known. 4 days is SQS's own retention.
        retention: how long the ledger keeps a row; None if it never deletes. An older effect needs no row any more.
        forgotten_before: epoch ms; nor does an effect of before that, when the retention was shorter.
    """

    now: int
    queue_known: bool = False
    dead_letters_known: bool = False
    patience: int = 4 * 24 * 3600 * 1000
    retention: int | None = None
    forgotten_before: int = 0

    def may_be_gone(self, since: Column, at: Column | int) -> Column:
        """Whether the row of what was done at `since` may be gone rightly at `at` (epoch ms); false where one is not known."""
        gone = F.lit(False)
        if self.retention is not None:
            gone = gone | (since + self.retention < at)
        if self.forgotten_before:
            gone = gone | (since < self.forgotten_before)
        return F.coalesce(gone, F.lit(False))


def judge(evidence: DataFrame, moment: Moment) -> DataFrame:
    """Add `subject`, `verdict` (null where the subject is no request) and `violations` (names, separated by spaces)."""
    marked = evidence.withColumn("subject", subject())
    broken = [F.when(condition, F.lit(name)) for name, condition in violations(moment).items()]
    return marked.select(
        *KEY,
        "subject",
        F.when(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED), verdict(moment)).alias("verdict"),
        F.concat_ws(" ", *broken).alias("violations"),
        *EVIDENCE_COLUMNS[len(KEY) :],
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
    rows = (
        "ledger_rows",
        "expects_cancelled",
        "appointment_rows",
        "cancellations",
        "held_slots",
        "slot_rows",
        "holdings",
    )
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


def over_since() -> Column:
    """When the row that would tell of the request was last written, as well as the other sources know it; epoch ms.

    That is the commit, and no duplicate after it makes the row live longer. What a request made carries the commit's time;
    else the first answer comes next. Where only duplicates tell of an answer it may be of any time, even before the first
    copy that is known was sent: 0, as in `appointments.invariants`.
    """
    return F.coalesce(
        F.when(made(), F.col("appointment_created")),
        F.when(F.col("cancellations") > 0, F.col("cancelled_at")),
        F.col("first_done"),
        F.when(F.col("deliveries_done") > 0, F.lit(0)),
        F.col("last_finished"),
        F.least("delivery_sent", "accepted_sent"),
    )


def forgotten(moment: Moment) -> Column:
    """Whether the ledger has rightly deleted its row."""
    return (F.col("ledger_rows") == 0) & moment.may_be_gone(over_since(), moment.now)


def begun_anew(moment: Moment) -> Column:
    """Whether the row is that of a copy which came after the first row had rightly gone, and is not through yet."""
    later = moment.may_be_gone(over_since(), F.col("ledger_resting_since"))
    return (F.col("ledger_rows") > 0) & ~complete() & later


def answered_anew(moment: Moment) -> Column:
    """Whether a copy that came after the row had rightly gone may have found an appointment that was cancelled since."""
    cancelled = F.col("appointment_status").isin(int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE))
    return F.coalesce(cancelled & moment.may_be_gone(over_since(), F.col("last_finished")), F.lit(False))


def dropped() -> Column:
    """A person deleted a copy from the dead-letter queue."""
    return F.col("dropped_at").isNotNull()


def nowhere() -> Column:
    """No queue holds the message, and nobody answers for that."""
    return (F.col("waiting") == 0) & (F.col("dead_letters") == 0) & ~dropped()


def quarantined_by_log(moment: Moment) -> Column:
    """The delivery log says that it was quarantined, nothing has touched it since, and no list of the queues says more."""
    if moment.queue_known and moment.dead_letters_known:
        return F.lit(False)
    # The consumer gives its claim back before it quarantines: a row that was written later was redriven.
    stands = F.col("quarantined_at") >= F.col("ledger_resting_since")
    return nowhere() & F.coalesce(stands, F.lit(False))


def unfinished_is_over(moment: Moment) -> Column:
    """A request was seen, has no row, and nothing will bring it on."""
    seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
    never_begun = (F.col("ledger_rows") == 0) & seen.isNotNull() & nowhere() & ~quarantined_by_log(moment)
    return never_begun if moment.queue_known else never_begun & (seen + moment.patience < moment.now)


def begun_is_over(moment: Moment) -> Column:
    """The row is IN_PROGRESS, nobody has held it for as long as the patience says, and nothing will take it over."""
    patience = 0 if moment.queue_known else moment.patience
    over = F.col("ledger_resting_since") + patience < moment.now
    return (F.col("ledger_rows") > 0) & ~complete() & over & nowhere() & ~quarantined_by_log(moment)


def begun_is_nowhere(moment: Moment) -> Column:
    """The row is IN_PROGRESS and no queue holds the message; where the queue is not known, its lease must be long over."""
    if moment.queue_known:
        seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
        begun = (F.col("ledger_rows") > 0) & ~complete()
        return begun & seen.isNotNull() & nowhere() & ~quarantined_by_log(moment)
    return begun_is_over(moment)


def verdict(moment: Moment) -> Column:
    """The first that applies, from the worst to the plainest."""
    effect_twice = (F.col("held_slots") > 1) | (F.col("appointment_rows") > 1) | (F.col("ledger_rows") > 1)
    status = F.col("appointment_status")
    by_outcome = outcome_verdict(F.col("ledger_outcome"))
    by_appointment = outcome_verdict(status)
    by_delivery = outcome_verdict(F.col("delivered_outcome"))
    cancelled = status.isin(int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE))
    old = forgotten(moment)
    return (
        F.when(effect_twice, F.lit(Verdict.DUPLICATE_EFFECT))
        .when(complete() & cancelled, F.lit(Verdict.CANCELLED))
        .when(complete(), by_outcome)
        .when(F.col("dead_letters") > 0, F.lit(Verdict.QUARANTINED))
        .when((F.col("ledger_rows") == 0) & made(), by_appointment)
        .when((F.col("ledger_rows") == 0) & (F.col("cancellations") > 0), F.lit(Verdict.CANCELLED))
        .when(old & F.col("delivered_outcome").isNotNull(), by_delivery)
        .when(dropped() & (F.col("waiting") == 0), F.lit(Verdict.DROPPED))
        .when(quarantined_by_log(moment), F.lit(Verdict.QUARANTINED))
        .when(begun_is_over(moment), F.lit(Verdict.STUCK))
        .when(old & nowhere(), F.lit(Verdict.FORGOTTEN))
        .when(unfinished_is_over(moment), F.lit(Verdict.LOST))
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
    agrees = F.col("answer_differs") == 0
    named = agrees & (F.col("ledger_names") != 0)
    expected = (
        F.when(outcome == int(Outcome.BOOKED), (booked | cancelled) & named)
        .when(outcome == int(Outcome.WAITLIST), (waits | cancelled) & named)
        .when(outcome == int(Outcome.CANCELLED), cancelled)
        .when(outcome.isin(int(Outcome.CANCELLED_OTHER), int(Outcome.REFUSED)), ~made())
        .otherwise(F.lit(False))
    ) & ((F.col("cancellations") == 0) | agrees)
    answered = F.when(F.col("delivered_outcome") == int(Delivered.CANCELLED), outcome.isin(*_CANCELLED)).otherwise(
        outcome == F.col("delivered_outcome")
    )
    slot_is = F.col("slot_status")
    # With two appointments on one slot (I3), or two slots of one request (I1), the links are mixed into one value, which
    # says nothing about either: those findings speak for both.
    held_by_its_own = (F.col("holdings") > 1) | ((F.col("holdings") == 1) & (F.col("holder_differs") == 0))
    old = forgotten(moment)
    two = F.when(F.col("claim_low") != F.col("claim_high"), F.lit(2))
    # A request that comes again after its row has expired gets a new row, which counts from 1.
    renewed = moment.may_be_gone(F.col("delivery_sent"), moment.now)
    excused = old | begun_anew(moment)
    claims = F.greatest(F.lit(1), F.col("consumptions_seen"), F.bit_count("claims_seen"), two)
    return {
        "I1": F.col("held_slots") > 1,
        "I2": (unfinished_is_over(moment) | begun_is_nowhere(moment)) & ~old,
        "I3": F.col("holdings") > 1,
        "I4": ((slot_is == int(SlotStatus.BUSY)) & ~held_by_its_own)
        | (slot_is == int(SlotStatus.BROKEN))
        | (booked & (F.col("held_slots") <= 1) & (F.col("held_differs") != 0)),
        "I5": (complete() & ~expected) | ((F.col("expects_cancelled") > 0) & ~cancelled),
        "I5r": ~complete() & (made() | (F.col("cancellations") > 0)) & ~excused,
        "I6": (F.col("deliveries_done") > 0) & ~complete() & ~excused,
        "I7": F.coalesce(
            ((F.col("answer_low") != F.col("answer_high")) & ~answered_anew(moment))
            | (complete() & (outcome != int(Outcome.UNKNOWN)) & ~answered & ~renewed),
            F.lit(False),
        ),
        "I9": begun_is_over(moment),
        "I10": (F.col("ledger_rows") > 0) & (F.col("ledger_consumptions") < F.when(renewed, 1).otherwise(claims)),
        "I11": ((F.col("dead_letters") > 0) | dropped()) & made() & ~complete() & ~excused,
        "S1": ~F.col("ledger_rows").isin(0, 1) | ~F.col("appointment_rows").isin(0, 1) | ~F.col("slot_rows").isin(0, 1),
    }
