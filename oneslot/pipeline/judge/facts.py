"""Every source as facts: one narrow shape for all of them, so that one shuffle brings together what belongs together.

A transform takes the rows of one source and gives facts. A row that cannot be used becomes a REJECT fact of its file: it
rides on the same shuffle, is counted exactly, and no second pass over the data is needed unless there is one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program gives it

from appointments.invariants import PLACE
from oneslot.pipeline.columns import (
    absent,
    bad_number,
    coded,
    identity_or,
    no_identity,
    number,
    place_link,
    reserved,
    slot_key_of,
    text,
    zero,
)
from oneslot.pipeline.judge.packing import packed
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.vocabulary import (
    FILE_PREFIX,
    AppointmentStatus,
    Channel,
    Delivered,
    Kind,
    Outcome,
    Problem,
    SlotStatus,
)

FREE_KEY = ("delivery_channel", "service_type", "start", "end", "slot_id")
LATEST_EPOCH_MS = 4_102_444_800_000  # the year 2100
LARGEST_COUNT = 1_000_000_000
CHANNELS = {"In-person": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO}
RESULT_SCHEMA = "outcome string, appointment_id string, practice string, slot_id string, start string, end string"

FACT_COLUMNS = {
    "key": "string",
    "kind": "int",
    "sign": "int",
    "code": "int",
    "number": "bigint",
    "at": "bigint",
    "until": "bigint",
    "link": "bigint",
    "extra": "bigint",
}
"""A fact. `sign`: +1 as it is now, -1 as it was (an old image takes back what it once said). `code`: a value of one of the
vocabularies. `number`: a count. `at`, `until`: epoch ms. `link`: a hash of another key. `extra`: of a delivery the hash of
its answer, of an appointment its practice's code, `packed`."""


def fact(key: Column, kind: Kind, **values: Column) -> Column:
    """One fact as a struct; what is not given is 0, or null for times and what is extra."""
    given = {"key": key, **values}
    usual = {"kind": int(kind), "sign": 1, "code": 0, "number": 0, "link": 0}
    columns = [
        given[name].cast(kind_of).alias(name)
        if name in given
        else F.expr(f"CAST({usual.get(name, 'NULL')} AS {kind_of}) AS {name}")
        for name, kind_of in FACT_COLUMNS.items()
    ]
    return F.struct(*columns)


def images(changes: DataFrame, start: int, end: int) -> DataFrame:
    """Lines of an incremental export → items with a sign: the old image is taken back, the new one counts.

    `start` and `end` (epoch ms) are the export's window; a change outside it is marked, and rejected later.
    """
    written = F.col("Metadata.WriteTimestampMicros.N").try_cast("bigint")
    outside = F.coalesce((written < start * 1000) | (written >= end * 1000), F.lit(False))
    empty = F.col("OldImage").isNull() & F.col("NewImage").isNull()
    # A line out of its window is rejected as one line, by its new image if it has one.
    taken_back = F.col("OldImage").isNotNull() & ~(outside & F.col("NewImage").isNotNull())
    old = F.when(taken_back, F.struct(F.lit(-1).alias("sign"), F.col("OldImage").alias("Item")))
    # A line with neither image is kept once, so that it is rejected and not forgotten.
    new = F.when(
        F.col("NewImage").isNotNull() | empty, F.struct(F.lit(1).alias("sign"), F.col("NewImage").alias("Item"))
    )
    both = changes.select(F.explode(F.array(old, new)).alias("image"), outside.alias("outside"), CORRUPT, PATH)
    return both.where(F.col("image").isNotNull()).select("image.Item", "image.sign", "outside", CORRUPT, PATH)


def whole_items(items: DataFrame) -> DataFrame:
    """Lines of a full export → items with the sign +1."""
    return items.select("Item", F.lit(1).alias("sign"), F.lit(False).alias("outside"), CORRUPT, PATH)


def ledger_facts(items: DataFrame) -> DataFrame:
    """The ledger's rows; a COMPLETE cancellation also speaks of the appointment that it cancelled."""
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
        # From when nobody has it. A consumer that gives its claim back writes a lease that ended long ago, and the time.
        until=F.when(~complete, F.greatest("lease_until", "updated")),
        # What the answer speaks of: the appointment that was cancelled, or the place that was found.
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
    """An appointment, seen from its request, and from the slot that it holds or the request that cancelled it."""
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
    # A booked appointment is not cancelled: one further element serves both.
    return facts_or_reject(read, problem, appointment, F.coalesce(holding, cancelled))


def slot_facts(items: DataFrame) -> DataFrame:
    """A slot, seen from itself and from the appointment that it names."""
    read = items.select(
        *(text(name).alias(name) for name in (*PLACE, "status", "appointment_id")),
        # Spelt as `appointments.free_key` spells it: a booking believes what the key says.
        F.coalesce(text("free_key") == F.concat_ws("#", *(text(name) for name in FREE_KEY)), F.lit(False)).alias(
            "findable"
        ),
        # 2026-11-23T08:00:00Z → 20261123: all that the utilisation asks of the time, and far cheaper than a timestamp.
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


def delivery_facts(lines: DataFrame, start: int | None, end: int) -> DataFrame:
    """Lines of the delivery log. The consumer's other log lines are no deliveries and are passed over.

    Of sound lines only those count that finished from `start` (inclusive; None: from ever) to `end` (exclusive), epoch ms:
    the tables do not show what a later one did, and an earlier one has been counted.
    """
    delivery = fact(
        identity_or("sqs_message_id"),
        Kind.DELIVERY,
        code=F.expr(DELIVERED),
        number=F.expr("coalesce(consumption_count, 0)"),
        at=F.col("finished"),
        until=F.col("sent"),
        link=F.when(F.col("claimed_by").isNotNull(), F.xxhash64("claimed_by")).otherwise(zero()),
        extra=F.when(F.col("answer").isNotNull(), F.xxhash64("answer")),
    )
    relevant = lines.where((F.col("message") == "delivery") | F.col(CORRUPT).isNotNull())
    counted = F.when(finished_within(start, end), delivery)
    return facts_or_reject(whole_lines(relevant), delivery_problem(), counted)


def sound_deliveries(lines: DataFrame) -> DataFrame:
    """The lines of the delivery log that nothing is wrong with, whenever they finished, with all their columns."""
    return whole_lines(lines.where(F.col("message") == "delivery")).where(delivery_problem().isNull())


DELIVERED = coded("outcome", {delivered.name.lower(): delivered for delivered in Delivered})
"""The code of a line's outcome, as SQL; null for one that the audit does not know."""


def delivery_problem() -> Column:
    """What is wrong with a line of the delivery log, or null."""
    return first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"{absent('outcome', 'finished', 'sent')} OR {no_identity('sqs_message_id')}",
            Problem.OUT_OF_RANGE: f"finished NOT BETWEEN 0 AND {LATEST_EPOCH_MS} "
            f"OR sent NOT BETWEEN 0 AND {LATEST_EPOCH_MS} OR consumption_count < 0",
            Problem.UNKNOWN_VALUE: f"{DELIVERED} IS NULL OR {reserved('message_id')}",
        }
    )


def finished_within(start: int | None, end: int) -> Column:
    """Whether a line of the delivery log finished from `start` (inclusive) to `end` (exclusive), epoch ms."""
    before_end = F.col("finished") < end
    return before_end if start is None else before_end & (F.col("finished") >= start)


def accepted_facts(lines: DataFrame) -> DataFrame:
    """The producer's archive. What was sent without an id cannot be followed, and is passed over."""
    accepted = fact(
        F.col("message_id"),
        Kind.ACCEPTED,
        number=F.coalesce(F.col("copies"), F.lit(1)),
        at=F.col("sent"),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("sent"),
            Problem.OUT_OF_RANGE: f"sent NOT BETWEEN 0 AND {LATEST_EPOCH_MS} OR copies NOT BETWEEN 0 AND {LARGEST_COUNT}",
            Problem.UNKNOWN_VALUE: reserved("message_id"),
        }
    )
    relevant = lines.where(F.col("message_id").isNotNull() | F.col(CORRUPT).isNotNull())
    return facts_or_reject(whole_lines(relevant), problem, accepted)


def dead_letter_facts(lines: DataFrame) -> DataFrame:
    """Messages of which a copy is in the dead-letter queue."""
    problem = first_problem({Problem.MISSING_ATTRIBUTE: no_identity("source_message_id")})
    dead = fact(identity_or("source_message_id"), Kind.DEAD_LETTER)
    return facts_or_reject(whole_lines(lines), problem, dead)


def dropped_facts(lines: DataFrame) -> DataFrame:
    """Messages that a person deleted from the dead-letter queue, from the audit trail."""
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"at IS NULL OR {no_identity('source_message_id')}",
            Problem.OUT_OF_RANGE: f"at NOT BETWEEN 0 AND {LATEST_EPOCH_MS}",
            Problem.UNKNOWN_VALUE: reserved("message_id"),
        }
    )
    dropped = fact(identity_or("source_message_id"), Kind.DROPPED, at=F.col("at"))
    return facts_or_reject(whole_lines(lines), problem, dropped)


def waiting_facts(lines: DataFrame) -> DataFrame:
    """Messages that the queue still holds."""
    problem = first_problem({Problem.MISSING_ATTRIBUTE: no_identity("sqs_message_id")})
    waiting = fact(identity_or("sqs_message_id"), Kind.WAITING)
    return facts_or_reject(whole_lines(lines), problem, waiting)


def whole_lines(lines: DataFrame) -> DataFrame:
    """Lines of a log → rows as the tables' items are: they count once, and were all written in time."""
    return lines.selectExpr("*", "1 AS sign", "false AS outside", "false AS bad")


def no_facts(spark: SparkSession) -> DataFrame:
    """Facts of sources in which nothing is."""
    nothing = [F.lit(None).cast(kind_of).alias(name) for name, kind_of in FACT_COLUMNS.items()]
    return spark.range(0).select(*nothing)


TABLE_FACTS = {"ledger": ledger_facts, "slots": slot_facts, "appointments": appointment_facts}
LINE_FACTS = {
    "accepted": accepted_facts,
    "dead-letters": dead_letter_facts,
    "dropped": dropped_facts,
    "waiting": waiting_facts,
}


def facts_or_reject(rows: DataFrame, problem: Column, *facts: Column) -> DataFrame:
    """Each row's facts (those that are not null), or one REJECT fact of its file if the row has a problem.

    An old image takes back what it once was, here too: the file that counted it is not known, so it is of none.
    """
    judged = rows.withColumn("problem", problem)
    sound = F.col("problem").isNull()
    sign = F.when(F.col("outside"), 1).otherwise(F.col("sign"))  # out of its window a line is rejected, and no image
    file = F.when(sign > 0, F.col(PATH)).otherwise("")
    reject = fact(F.concat(F.lit(FILE_PREFIX), file), Kind.REJECT, sign=sign, code=F.col("problem"))
    first, *others = facts
    wanted = F.array(F.when(sound, first).otherwise(reject), *(F.when(sound, other) for other in others))
    exploded = judged.select(F.explode(wanted).alias("fact")).where(F.col("fact").isNotNull())
    return exploded.select("fact.*")


def first_problem(conditions: Mapping[Problem, str]) -> Column:
    """The first problem that a row has, as its code, or null. A line that is no JSON has none of the others' columns.

    Conditions are SQL. Null counts as no.
    """
    of_all = {
        Problem.NOT_JSON: f"{CORRUPT} IS NOT NULL",
        Problem.OUTSIDE_WINDOW: "outside",
        Problem.OUT_OF_RANGE: "bad",
    }
    asked = [*of_all.items(), *conditions.items()]
    return F.expr(f"CASE {' '.join(f'WHEN {condition} THEN {int(problem)}' for problem, condition in asked)} END")
