"""What the measures of a request show: whether it is complete, made, forgotten, dropped, or beyond help.

Verdicts and violations are built from these conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.vocabulary import AppointmentStatus


@dataclass(frozen=True)
class Moment:
    """The time and the knowledge by which requests are judged. Times are in milliseconds.

    Attributes:
        now: epoch ms; a lease that ended earlier is over.
        queue_known: the `waiting` source lists the whole queue, so a message that no source shows is lost.
        dead_letters_known: the `dead-letters` source lists the whole dead-letter queue.
        patience: how long a request may be unseen while the queue's content is not known. SQS keeps a message for 4 days.
        retention: how long the ledger keeps a row; None if it keeps rows forever. An older effect needs no row.
        forgotten_before: epoch ms; an effect from before then needs no row either, because the retention was shorter.
    """

    now: int
    queue_known: bool = False
    dead_letters_known: bool = False
    patience: int = 4 * 24 * 3600 * 1000
    retention: int | None = None
    forgotten_before: int = 0

    def may_be_gone(self, since: Column, at: Column | int) -> Column:
        """Return true where the row of work done at `since` may have expired at `at` (epoch ms); false where a time is null."""
        gone = F.lit(False)
        if self.retention is not None:
            gone = gone | (since + self.retention < at)
        if self.forgotten_before:
            gone = gone | (since < self.forgotten_before)
        return F.coalesce(gone, F.lit(False))


def complete() -> Column:
    """Return true where the ledger's row is COMPLETE."""
    return F.col("ledger_complete") > 0


def made() -> Column:
    """Return true where the request made an appointment, whatever its state is now."""
    return (F.col("appointment_rows") > 0) & (F.col("appointment_status") != int(AppointmentStatus.TOMBSTONE))


def over_since() -> Column:
    """Return when the row of the request was last written, as far as other sources show it; epoch ms.

    That is the commit. A duplicate does not extend the row's life. An appointment or cancellation carries the time of the
    commit; the next best is the first answer. Where only duplicates show that there was an answer, it may be of any time, even
    before the first known copy was sent: 0, as in `appointments.invariants`.
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
    """Return true where the ledger's row has expired."""
    return (F.col("ledger_rows") == 0) & moment.may_be_gone(over_since(), moment.now)


def begun_again(moment: Moment) -> Column:
    """Return true where a copy that came after the first row expired has a new row, and is not COMPLETE."""
    later = moment.may_be_gone(over_since(), F.col("ledger_resting_since"))
    return (F.col("ledger_rows") > 0) & ~complete() & later


def answered_again(moment: Moment) -> Column:
    """Return true where a copy that came after the row expired may have found an appointment that was cancelled since."""
    cancelled = F.col("appointment_status").isin(int(AppointmentStatus.CANCELLED), int(AppointmentStatus.TOMBSTONE))
    return F.coalesce(cancelled & moment.may_be_gone(over_since(), F.col("last_finished")), F.lit(False))


def dropped() -> Column:
    """Return true where an operator deleted a copy from the dead-letter queue."""
    return F.col("dropped_at").isNotNull()


def in_no_queue() -> Column:
    """Return true where no queue holds the message and no operator dropped it."""
    return (F.col("waiting") == 0) & (F.col("dead_letters") == 0) & ~dropped()


def quarantined_by_log(moment: Moment) -> Column:
    """Return true where the delivery log says quarantined, no consumer wrote the row since, and not both queues are listed."""
    if moment.queue_known and moment.dead_letters_known:
        return F.lit(False)
    # The consumer releases its claim before it quarantines. A row written later belongs to a redriven message.
    stands = F.col("quarantined_at") >= F.col("ledger_resting_since")
    return in_no_queue() & F.coalesce(stands, F.lit(False))


def unfinished_is_over(moment: Moment) -> Column:
    """Return true where a request was seen, has no row, and no message or lease will continue it."""
    seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
    never_begun = (F.col("ledger_rows") == 0) & seen.isNotNull() & in_no_queue() & ~quarantined_by_log(moment)
    return never_begun if moment.queue_known else never_begun & (seen + moment.patience < moment.now)


def begun_is_over(moment: Moment) -> Column:
    """Return true where the row is IN_PROGRESS, unheld for longer than the patience, and no message will continue it."""
    patience = 0 if moment.queue_known else moment.patience
    over = F.col("ledger_resting_since") + patience < moment.now
    return (F.col("ledger_rows") > 0) & ~complete() & over & in_no_queue() & ~quarantined_by_log(moment)


def begun_in_no_queue(moment: Moment) -> Column:
    """Return true where the row is IN_PROGRESS and no queue holds the message; for an unknown queue, where patience ended."""
    if moment.queue_known:
        seen = F.coalesce(F.col("accepted_sent"), F.col("delivery_sent"))
        begun = (F.col("ledger_rows") > 0) & ~complete()
        return begun & seen.isNotNull() & in_no_queue() & ~quarantined_by_log(moment)
    return begun_is_over(moment)
