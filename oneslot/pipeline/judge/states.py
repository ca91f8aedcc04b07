"""The states of a request by its measures: complete, made, forgotten, dropped, or beyond help.

Verdicts and violations are built from these conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


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


@dataclass(frozen=True)
class Shown:
    """The effects of a request in a consumer's tables, as SQL over the measures.

    Attributes:
        made: true where the request made a row, whatever the row's state is now.
        acted: true where it made a row or changed one.
        committed_at: when it did, epoch ms; null if no row says so.
        twice: true where it took effect more than once.
        reversed: true where its effect was undone since, so that later copies may get another answer.
        answered: true where the first answer in the log is the one that the ledger's row keeps.
        recorded: the verdict on a COMPLETE request.
        told: the verdict on a request without a row in the ledger, by its effects; null if it has none.
        logged: the verdict by the first answer in the log.
    """

    made: str
    acted: str
    committed_at: str
    twice: str
    reversed: str
    answered: str
    recorded: str
    told: str
    logged: str


def complete() -> Column:
    """Return true where the ledger's row is COMPLETE."""
    return F.col("ledger_complete") > 0


def over_since(shown: Shown) -> Column:
    """Return when the row of the request was last written, as far as other sources show it; epoch ms.

    That is the commit. A duplicate does not extend the row's life. An effect carries the time of the commit; the next best is
    the first answer. Where only an effect without time or a duplicate shows that there was an answer, it may be of any time,
    even before the first known copy was sent: 0, as in `oneslot.laws.evidence`.
    """
    return F.coalesce(
        F.expr(shown.committed_at),
        F.col("first_done"),
        F.when(F.expr(shown.acted) | (F.col("deliveries_done") > 0), F.lit(0)),
        F.col("last_finished"),
        F.least("delivery_sent", "accepted_sent"),
    )


def forgotten(moment: Moment, shown: Shown) -> Column:
    """Return true where the ledger's row has expired."""
    return (F.col("ledger_rows") == 0) & moment.may_be_gone(over_since(shown), moment.now)


def begun_again(moment: Moment, shown: Shown) -> Column:
    """Return true where a copy that came after the first row expired has a new row, and is not COMPLETE."""
    later = moment.may_be_gone(over_since(shown), F.col("ledger_resting_since"))
    return (F.col("ledger_rows") > 0) & ~complete() & later


def answered_again(moment: Moment, shown: Shown) -> Column:
    """Return true where a copy that came after the row expired may have found an effect that was undone since."""
    later = moment.may_be_gone(over_since(shown), F.col("last_finished"))
    return F.coalesce(F.expr(shown.reversed) & later, F.lit(False))


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
