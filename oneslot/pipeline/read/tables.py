"""Rows of the three exported tables as facts."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import (
    absent,
    bad_number,
    coded,
    number,
    packed,
    place_link,
    reserved,
    slot_key_of,
    text,
    zero,
)
from oneslot.pipeline.read.facts import LARGEST_COUNT, LATEST_EPOCH_MS, fact, facts_or_reject, first_problem
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.vocabulary import AppointmentStatus, Channel, Kind, Outcome, Problem, SlotStatus

PLACE = ("practice", "slot_id", "start", "end")
"""Place and time of an appointment; the recorded answer names the same."""
FREE_KEY = ("delivery_channel", "service_type", "start", "end", "slot_id")
CHANNELS = {"In-person": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO}
RESULT_SCHEMA = "outcome string, appointment_id string, practice string, slot_id string, start string, end string"


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


def ledger_facts(items: DataFrame) -> DataFrame:
    """Return facts of the ledger's rows. A COMPLETE cancellation also gives a fact of the appointment that it cancelled."""
    read = items.select(
        text("message_id").alias("key"),
        text("status").alias("status"),
        F.from_json(F.when(text("status") == "COMPLETE", text("result")), RESULT_SCHEMA).alias("result"),
        *(number(name).alias(name) for name in ("consumption_count", "updated", "lease_until")),
        bad_number(consumption_count=LARGEST_COUNT, updated=LATEST_EPOCH_MS, lease_until=LATEST_EPOCH_MS).alias("bad"),
        *("sign", "outside", CORRUPT, PATH),
    )
    complete = F.col("status") == "COMPLETE"
    its_own, others = "result.appointment_id = key", "result.appointment_id != key"
    outcome = coded(
        "result.outcome",
        {
            "booked": f"CASE WHEN {its_own} THEN {int(Outcome.BOOKED)} END",
            "waitlist": f"CASE WHEN {its_own} THEN {int(Outcome.WAITLIST)} END",
            "cancelled": f"CASE WHEN {others} THEN {int(Outcome.CANCELLED_OTHER)} "
            f"WHEN {its_own} THEN {int(Outcome.CANCELLED)} END",
            "refused": f"CASE WHEN {its_own} THEN {int(Outcome.REFUSED)} END",
        },
    )
    ledger = fact(
        F.col("key"),
        Kind.LEDGER,
        sign=F.col("sign"),
        code=F.expr(
            f"CASE WHEN status = 'COMPLETE' THEN coalesce({outcome}, {int(Outcome.UNKNOWN)}) "
            f"ELSE {int(Outcome.IN_PROGRESS)} END"
        ),
        number=F.col("consumption_count"),
        # The time from which no consumer holds the row. A released claim has a lease in the past and the time of the release.
        until=F.when(~complete, F.greatest("lease_until", "updated")),
        # The subject of the answer: the cancelled appointment, or the place of the booking.
        link=F.when(F.col("result.outcome") == "cancelled", F.xxhash64("result.appointment_id")).otherwise(
            place_link(*(F.col(f"result.{name}") for name in PLACE))
        ),
    )
    cancels = F.when(
        F.expr(f"status = 'COMPLETE' AND result.outcome = 'cancelled' AND {others}"),
        fact(F.col("result.appointment_id"), Kind.EXPECTS_CANCELLED, sign=F.col("sign")),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("key", "status", "consumption_count", "updated"),
            Problem.UNKNOWN_VALUE: f"status NOT IN ('IN_PROGRESS', 'COMPLETE') OR {reserved('key')}",
        }
    )
    return facts_or_reject(read, problem, ledger, cancels)


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
    slot_key = slot_key_of(F.col("practice"), F.col("slot_id"))
    appointment = fact(
        F.col("key"),
        Kind.APPOINTMENT,
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
    holding = F.when(booked, fact(slot_key, Kind.HOLDING, sign=F.col("sign"), link=F.xxhash64(F.col("key"))))
    cancelled = F.when(
        F.col("status") == "cancelled",
        fact(
            F.col("cancelled_by"),
            Kind.CANCELLED,
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
    slot_key = slot_key_of(F.col("practice"), F.col("slot_id"))
    slot = fact(
        slot_key,
        Kind.SLOT,
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
            Kind.HELD,
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


TABLE_FACTS = {"ledger": ledger_facts, "slots": slot_facts, "appointments": appointment_facts}
