"""Rows of the ledger, of appointments and of slots as facts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import (
    absent,
    bad_number,
    coded,
    key_of_row,
    number,
    packed,
    reserved,
    text,
    zero,
)
from oneslot.pipeline.read import tables
from oneslot.pipeline.read.facts import LATEST_EPOCH_MS, fact, facts_or_reject, first_problem
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.vocabulary import Problem
from workload.audit.vocabulary import AppointmentStatus, Channel, Outcome, OwnKind, SlotStatus

PLACE = ("practice", "slot_id", "start", "end")
"""Place and time of an appointment; the recorded answer names the same."""
FREE_KEY = ("delivery_channel", "service_type", "start", "end", "slot_id")
CHANNELS = {"In-person": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO}
RESULT = "outcome string, appointment_id string, practice string, slot_id string, start string, end string"
ITS_OWN, OTHERS = "result.appointment_id = key", "result.appointment_id != key"
OUTCOME = coded(
    "result.outcome",
    {
        "booked": f"CASE WHEN {ITS_OWN} THEN {int(Outcome.BOOKED)} END",
        "waitlist": f"CASE WHEN {ITS_OWN} THEN {int(Outcome.WAITLIST)} END",
        "cancelled": f"CASE WHEN {OTHERS} THEN {int(Outcome.CANCELLED_OTHER)} "
        f"WHEN {ITS_OWN} THEN {int(Outcome.CANCELLED)} END",
        "refused": f"CASE WHEN {ITS_OWN} THEN {int(Outcome.REFUSED)} END",
    },
)


def ledger_facts(items: DataFrame) -> DataFrame:
    """Return facts of the ledger's rows. A COMPLETE cancellation also gives a fact of the appointment that it cancelled."""
    return tables.ledger_facts(items, RESULT, OUTCOME, _named, _cancels)


def _named() -> Column:
    """Return the hash of the subject of the answer: the cancelled appointment, or the place of the booking."""
    place = place_link(*(F.col(f"result.{name}") for name in PLACE))
    return F.when(F.col("result.outcome") == "cancelled", F.xxhash64("result.appointment_id")).otherwise(place)


def _cancels() -> Column:
    return F.when(
        F.expr(f"status = 'COMPLETE' AND result.outcome = 'cancelled' AND {OTHERS}"),
        fact(F.col("result.appointment_id"), OwnKind.EXPECTS_CANCELLED, sign=F.col("sign")),
    )


def place_link(practice: Column, slot_id: Column, start: Column, end: Column) -> Column:
    """Return the hash of the place and time of an appointment, or of the practice for one that waits; 0 without a practice."""
    return F.when(practice.isNotNull(), F.xxhash64(practice, slot_id, start, end)).otherwise(zero())


def appointment_facts(items: DataFrame) -> DataFrame:
    """Return facts of appointments: of their requests, and of the slots they hold or the requests that cancelled them."""
    read = items.select(
        text("appointment_id").alias("key"),
        *(text(name).alias(name) for name in (*PLACE, "status", "delivery_channel", "cancelled_by")),
        F.unix_millis(F.try_to_timestamp(text("start"))).alias("starts"),
        *(number(name).alias(name) for name in ("created", "updated")),
        bad_number(created=LATEST_EPOCH_MS, updated=LATEST_EPOCH_MS).alias("bad"),
        *("sign", "outside", CORRUPT, PATH),
    )
    booked = F.col("status") == "booked"
    made = F.col("practice").isNotNull()
    slot_key = key_of_row(F.col("practice"), F.col("slot_id"))
    appointment = fact(
        F.col("key"),
        OwnKind.APPOINTMENT,
        sign=F.col("sign"),
        code=F.when(~made, F.lit(int(AppointmentStatus.TOMBSTONE))).otherwise(
            F.expr(coded("status", {status.name.lower(): status for status in list(AppointmentStatus)[:3]}))
        ),
        number=F.expr(
            f"coalesce({coded('delivery_channel', CHANNELS)}, "
            f"CASE WHEN practice IS NOT NULL THEN {int(Channel.OTHER)} ELSE 0 END)"
        ),
        at=F.col("created"),
        until=F.col("starts"),
        link=place_link(*map(F.col, PLACE)),
        extra=packed(F.col("practice")),
    )
    holding = F.when(booked, fact(slot_key, OwnKind.HOLDING, sign=F.col("sign"), link=F.xxhash64(F.col("key"))))
    cancelled = F.when(
        F.col("status") == "cancelled",
        fact(
            F.col("cancelled_by"),
            OwnKind.CANCELLED,
            sign=F.col("sign"),
            at=F.coalesce("updated", "created"),
            link=F.xxhash64("key"),
        ),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"{absent('key', 'status', 'created')} "
            f"OR (status = 'booked' AND {absent('slot_id', 'starts')}) "
            "OR (status = 'cancelled' AND cancelled_by IS NULL) OR (practice IS NULL AND status != 'cancelled')",
            Problem.UNKNOWN_VALUE: "status NOT IN ('booked', 'waitlist', 'cancelled') "
            f"OR {reserved('key')} OR {reserved('cancelled_by')}",
        }
    )
    # An appointment is either booked or cancelled, so one further element serves both.
    return facts_or_reject(read, problem, appointment, F.coalesce(holding, cancelled))


def slot_facts(items: DataFrame) -> DataFrame:
    """Return facts of slots, and of the appointments that they name."""
    read = items.select(
        *(text(name).alias(name) for name in (*PLACE, "status", "appointment_id")),
        # The same spelling as in `appointments.slot_choice`: a booking trusts the key.
        F.coalesce(text("free_key") == F.concat_ws("#", *(text(name) for name in FREE_KEY)), F.lit(False)).alias(
            "findable"
        ),
        # 2026-11-23T08:00:00Z → 20261123: enough for the utilisation, and far cheaper than a timestamp.
        F.replace(F.substring(text("start"), 1, 10), F.lit("-"), F.lit("")).try_cast("bigint").alias("date"),
        F.lit(False).alias("bad"),
        *("sign", "outside", CORRUPT, PATH),
    )
    busy = F.col("status") == "busy"
    named = F.col("appointment_id").isNotNull()
    slot_key = key_of_row(F.col("practice"), F.col("slot_id"))
    slot = fact(
        slot_key,
        OwnKind.SLOT,
        sign=F.col("sign"),
        code=F.when(busy, F.lit(int(SlotStatus.BUSY)))
        .when(named | ~F.col("findable"), F.lit(int(SlotStatus.BROKEN)))
        .otherwise(int(SlotStatus.FREE)),
        number=F.col("date"),
        link=F.coalesce(F.when(named, F.xxhash64(F.col("appointment_id"))), zero()),
    )
    held = F.when(
        named,
        fact(
            F.col("appointment_id"),
            OwnKind.HELD,
            sign=F.col("sign"),
            link=F.when(busy, place_link(*map(F.col, PLACE))).otherwise(zero()),
        ),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("practice", "slot_id", "status", "date"),
            Problem.UNKNOWN_VALUE: f"status NOT IN ('free', 'busy') OR {reserved('appointment_id')}",
        }
    )
    return facts_or_reject(read, problem, slot, held)
