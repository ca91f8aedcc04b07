"""What each source looks like on disk: an explicit schema for each, so that nothing is inferred and nothing surprises."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from oneslot.pipeline.storage import literal

CORRUPT = "corrupt_line"
PATH = "path"

TEXT = StringType()
COUNT = IntegerType()
EPOCH_MS = LongType()


def _attributes(texts: tuple[str, ...], numbers: tuple[str, ...]) -> StructType:
    """DynamoDB's JSON: each attribute is an object with one member, named by its type; numbers are text."""
    wrapped = [StructField(name, StructType([StructField("S", TEXT)])) for name in texts]
    return StructType(wrapped + [StructField(name, StructType([StructField("N", TEXT)])) for name in numbers])


# Only what the audit uses is named: the reader skips the rest unparsed, and personal data is never read at all.
LEDGER = _attributes(("message_id", "status", "result"), ("consumption_count", "updated", "lease_until"))
SLOTS = _attributes(
    (
        "practice",
        "slot_id",
        "status",
        "appointment_id",
        "free_key",
        "delivery_channel",
        "service_type",
        "start",
        "end",
    ),
    (),
)
APPOINTMENTS = _attributes(
    ("appointment_id", "status", "practice", "slot_id", "start", "end", "delivery_channel", "cancelled_by"),
    ("created", "updated"),
)
ITEMS = {"ledger": LEDGER, "slots": SLOTS, "appointments": APPOINTMENTS}

KEY_ATTRIBUTES = {
    "ledger": ("message_id",),
    "slots": ("practice", "slot_id"),
    "appointments": ("appointment_id",),
}
KNOWN_ATTRIBUTES = {
    "ledger": frozenset(
        [
            "message_id",
            "status",
            "consumption_count",
            "updated",
            "lease_until",
            "claimed_by",
            "payload_hash",
            "result",
            "expires_at",
        ]
    ),
    "slots": frozenset(
        [
            "practice",
            "slot_id",
            "start",
            "end",
            "status",
            "delivery_channel",
            "service_type",
            "appointment_id",
            "free_key",
        ]
    ),
    "appointments": frozenset(
        [
            "appointment_id",
            "status",
            "practice",
            "nhs_number",
            "delivery_channel",
            "service_type",
            "payload_hash",
            "not_before",
            "not_after",
            "slot_id",
            "start",
            "end",
            "created",
            "updated",
            "cancelled_by",
        ]
    ),
}

DELIVERIES = StructType(
    [
        StructField("message", TEXT),
        StructField("message_id", TEXT),
        StructField("sqs_message_id", TEXT),
        StructField("outcome", TEXT),
        StructField("consumption_count", COUNT),
        StructField("sent", EPOCH_MS),
        StructField("finished", EPOCH_MS),
        StructField("claimed_by", TEXT),
        StructField("answer", TEXT),
    ]
)
# The report's timelines read these as well, for a few messages only.
TIMELINE = StructType([*DELIVERIES, StructField("receive_count", COUNT), StructField("attempt_ms", EPOCH_MS)])
ACCEPTED = StructType([StructField("message_id", TEXT), StructField("sent", EPOCH_MS), StructField("copies", COUNT)])
DEAD_LETTERS = StructType([StructField("message_id", TEXT), StructField("source_message_id", TEXT)])
DROPPED = StructType(
    [StructField("message_id", TEXT), StructField("source_message_id", TEXT), StructField("at", EPOCH_MS)]
)
WAITING = StructType([StructField("message_id", TEXT), StructField("sqs_message_id", TEXT)])
LINES = {
    "deliveries": DELIVERIES,
    "accepted": ACCEPTED,
    "dead-letters": DEAD_LETTERS,
    "dropped": DROPPED,
    "waiting": WAITING,
}


def full_export_schema(table: str) -> StructType:
    """A line of a full export of `table`."""
    return StructType([StructField("Item", ITEMS[table])])


def incremental_export_schema(table: str) -> StructType:
    """A line of an incremental export of `table`, new and old images."""
    written = StructType([StructField("WriteTimestampMicros", StructType([StructField("N", TEXT)]))])
    images = [StructField("OldImage", ITEMS[table]), StructField("NewImage", ITEMS[table])]
    return StructType([StructField("Metadata", written), *images])


def read_lines(spark: SparkSession, paths: list[str], schema: StructType) -> DataFrame:
    """JSON lines → columns of `schema`, the text of a line that does not fit in `corrupt_line`, and the file's `path`."""
    with_corrupt = StructType([*schema, StructField(CORRUPT, TEXT)])
    reader = spark.read.schema(with_corrupt).option("columnNameOfCorruptRecord", CORRUPT)
    return reader.json([*map(literal, paths)]).selectExpr("*", f"_metadata.file_path AS {PATH}")


def read_log(spark: SparkSession, paths: list[str], name: str) -> DataFrame:
    """The same of lines that no manifest counts. What Spark does not read of a line is told as well."""
    lines = spark.read.text([*map(literal, paths)]).selectExpr(
        f"{unread(name)} AS {CORRUPT}", f"_metadata.file_path AS {PATH}"
    )
    beside = lines.where(F.col(CORRUPT).isNotNull())
    return read_lines(spark, paths, LINES[name]).unionByName(beside, allowMissingColumns=True)


def unread(name: str) -> str:
    """The text of a line of which Spark reads a part only, or null, as SQL over its `value`; `name` is the line's source.

    Of a line Spark takes the first object, and of that what its schema names: the first goes on after it, and the second
    is an envelope with deliveries in it, which would pass for one of the consumer's other lines.
    """
    goes_on = "coalesce(json_array_length(concat('[', value, ']')) != 1, true)"
    envelope = (
        f"value RLIKE r'{DELIVERY_WITHIN}' AND coalesce(get_json_object(value, '$.message'), "
        "get_json_object(value, '$[0].message'), '') != 'delivery'"
    )
    found = f"({goes_on} OR ({envelope}))" if name == "deliveries" else goes_on
    # The first question is quick, and nearly every line is through with it: an object without another one inside.
    return f"""CASE WHEN (NOT endswith(value, '}}') OR contains(substr(value, 2), '{{'))
        AND get_json_object(value, '$') IS NOT NULL AND {found} THEN value END"""


DELIVERY_WITHIN = r'message\\*"\s*:\s*\\*"delivery\\*"'
"""A member of a delivery's line, in an object or in text that is one: its quotes then have backslashes before them."""
