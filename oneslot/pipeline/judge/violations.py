"""The invariants that a history can show, as columns: true where a row breaks one.

Each has the name of an invariant of `appointments.invariants`. A test compares the two lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.states import (
    Moment,
    answered_again,
    begun_again,
    begun_in_no_queue,
    begun_is_over,
    complete,
    dropped,
    forgotten,
    made,
    unfinished_is_over,
)
from oneslot.pipeline.vocabulary import AppointmentStatus, Delivered, Outcome, SlotStatus

SOURCE_FINDINGS = {
    "S1": "A table's export holds each item at most once.",
}
"""Findings about the sources themselves; the invariants are in `appointments.invariants`."""

_CANCELLED = (int(Outcome.CANCELLED), int(Outcome.CANCELLED_OTHER))


def violations(moment: Moment) -> Mapping[str, Column]:
    """Return each invariant that a history can show, with the column that is true where a row breaks it."""
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
    # With two appointments on one slot (I3), or two slots of one request (I1), the combined link is meaningless. Those
    # findings report both.
    held_by_its_own = (F.col("holdings") > 1) | ((F.col("holdings") == 1) & (F.col("holder_differs") == 0))
    old = forgotten(moment)
    two = F.when(F.col("claim_low") != F.col("claim_high"), F.lit(2))
    # A request that comes again after its row expired gets a new row, whose count starts at 1.
    renewed = moment.may_be_gone(F.col("delivery_sent"), moment.now)
    excused = old | begun_again(moment)
    claims = F.greatest(F.lit(1), F.col("consumptions_seen"), F.bit_count("claims_seen"), two)
    return {
        "I1": F.col("held_slots") > 1,
        "I2": (unfinished_is_over(moment) | begun_in_no_queue(moment)) & ~old,
        "I3": F.col("holdings") > 1,
        "I4": ((slot_is == int(SlotStatus.BUSY)) & ~held_by_its_own)
        | (slot_is == int(SlotStatus.BROKEN))
        | (booked & (F.col("held_slots") <= 1) & (F.col("held_differs") != 0)),
        "I5": (complete() & ~expected) | ((F.col("expects_cancelled") > 0) & ~cancelled),
        "I5r": ~complete() & (made() | (F.col("cancellations") > 0)) & ~excused,
        "I6": (F.col("deliveries_done") > 0) & ~complete() & ~excused,
        "I7": F.coalesce(
            ((F.col("answer_low") != F.col("answer_high")) & ~answered_again(moment))
            | (complete() & (outcome != int(Outcome.UNKNOWN)) & ~answered & ~renewed),
            F.lit(False),
        ),
        "I9": begun_is_over(moment),
        "I10": (F.col("ledger_rows") > 0) & (F.col("ledger_consumptions") < F.when(renewed, 1).otherwise(claims)),
        "I11": ((F.col("dead_letters") > 0) | dropped()) & made() & ~complete() & ~excused,
        "S1": ~F.col("ledger_rows").isin(0, 1) | ~F.col("appointment_rows").isin(0, 1) | ~F.col("slot_rows").isin(0, 1),
    }
