"""Schemas of all sources. Each is explicit, so that Spark infers nothing."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from oneslot.declaration import schema
from oneslot.pipeline.storage import literal

CORRUPT = "corrupt_line"
PATH = "path"

TEXT = StringType()
COUNT = IntegerType()
EPOCH_MS = LongType()


def attributes(texts: Iterable[str], numbers: Iterable[str] = ()) -> StructType:
    """Return the schema of DynamoDB's JSON: each attribute is an object whose one member names its type; numbers are text.

    The reader skips what the schema does not name, so personal data is never read.
    """
    wrapped = [StructField(name, StructType([StructField("S", TEXT)])) for name in texts]
    return StructType(wrapped + [StructField(name, StructType([StructField("N", TEXT)])) for name in numbers])


LEDGER = attributes(("message_id", "status", "result"), ("consumption_count", "updated", "lease_until"))
LEDGER_KEY = ("message_id",)
LEDGER_ATTRIBUTES = frozenset(schema.LEDGER_ATTRIBUTES)

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
# The report's timelines read two more columns, for a few messages.
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


def full_export_schema(item: StructType) -> StructType:
    """Return the schema of a line of a full export with items of this schema."""
    return StructType([StructField("Item", item)])


def incremental_export_schema(item: StructType) -> StructType:
    """Return the schema of a line of an incremental export, with new and old images of this schema."""
    written = StructType([StructField("WriteTimestampMicros", StructType([StructField("N", TEXT)]))])
    images = [StructField("OldImage", item), StructField("NewImage", item)]
    return StructType([StructField("Metadata", written), *images])


def with_corrupt(schema: StructType) -> StructType:
    """Return a schema with the column for the text of an invalid line."""
    return StructType([*schema, StructField(CORRUPT, TEXT)])


def read_lines(spark: SparkSession, paths: list[str], schema: StructType) -> DataFrame:
    """Read JSON lines into the columns of `schema`, `corrupt_line` (the text of an invalid line) and `path`."""
    reader = spark.read.schema(with_corrupt(schema)).option("columnNameOfCorruptRecord", CORRUPT)
    return reader.json([*map(literal, paths)]).selectExpr("*", f"_metadata.file_path AS {PATH}")


def read_log(spark: SparkSession, paths: list[str], name: str, control: Observation | None = None) -> DataFrame:
    """Read the lines of a log, as `read_lines` does, and mark lines of which Spark reads only a part.

    `control` counts CloudWatch's control messages as `messages`.
    """
    text = spark.read.text([*map(literal, paths)]).selectExpr(
        "value", f"{unread(name)} AS {CORRUPT}", f"_metadata.file_path AS {PATH}"
    )
    whole = read_lines(spark, paths, LINES[name])
    beside = text.where(F.col(CORRUPT).isNotNull())
    if name == JOINED:
        whole = whole.where(f"NOT coalesce(startswith({CORRUPT}, '{CONTROL}'), false)")
        beside = text.where(f"{CORRUPT} IS NOT NULL OR startswith(value, '{CONTROL}')")
        if control:
            beside = beside.observe(control, F.sum(F.regexp_count("value", F.lit(CONTROL))).alias("messages"))
        # `whole` has the first object of a line.
        others = f"slice({lines_within(name)}, if(startswith(value, '{{'), 2, 1), 1000000)"
        line = f"explode(if({several(CORRUPT)}, {others}, array(value))) AS value"
        pieces = beside.selectExpr(line, f"NOT {several(CORRUPT)} AS malformed", PATH)
        read = F.from_json("value", with_corrupt(LINES[name]), {"columnNameOfCorruptRecord": CORRUPT}).alias("row")
        problem = F.expr(f"CASE WHEN malformed THEN value ELSE coalesce(row.{CORRUPT}, {unread(name)}) END")
        beside = pieces.select(read, "value", "malformed", PATH).select("row.*", problem.alias("problem"), PATH)
        beside = beside.drop(CORRUPT).withColumnRenamed("problem", CORRUPT)
    return whole.unionByName(beside, allowMissingColumns=name != JOINED)


def lines_within(name: str) -> str:
    """Return SQL for the lines in the text `value`. Firehose may join deliveries without a line break."""
    if name != JOINED:
        return "array(value)"
    # Inside a text a quote is escaped, so these letters begin an object.
    objects = f"split(regexp_replace(value, '{CONTROL}[^{{]*', ''), r'(?<=\\}})(?=\\{{\"\\w+\"\\s*:)')"
    return f"if({several(unread(name))}, filter({objects}, line -> line != ''), array(value))"


def several(unread_text: str) -> str:
    """Return SQL that is true where the text `value` holds joined lines or a control message. One object never does."""
    joined = f"({unread_text} IS NOT NULL AND (contains(value, '}}{{') OR contains(value, '}}{CONTROL}')))"
    return f"(startswith(value, '{CONTROL}') OR {joined})"


JOINED = "deliveries"
CONTROL = "CWL CONTROL MESSAGE"
"""How CloudWatch Logs begins the line that it sends through a subscription to check the destination."""


def unread(name: str) -> str:
    """Return SQL over `value` for the text of a line of the source `name` of which Spark reads only a part, else null.

    Spark takes the first object of a line and the members that the schema names. So it would miss text after that object, and
    an envelope with deliveries inside, which would pass for another line of the consumer.
    """
    goes_on = "coalesce(json_array_length(concat('[', value, ']')) != 1, true)"
    envelope = (
        f"value RLIKE r'{DELIVERY_WITHIN}' AND coalesce(get_json_object(value, '$.message'), "
        "get_json_object(value, '$[0].message'), '') != 'delivery'"
    )
    found = f"({goes_on} OR ({envelope}))" if name == "deliveries" else goes_on
    # The first condition is cheap, and settles nearly every line: an object without another object inside.
    return f"""CASE WHEN (NOT endswith(value, '}}') OR contains(substr(value, 2), '{{'))
        AND get_json_object(value, '$') IS NOT NULL AND {found} THEN value END"""


DELIVERY_WITHIN = r'message\\*"\s*:\s*\\*"delivery\\*"'
"""Matches a member of a delivery's line, inside an object or inside quoted text, where quotes have backslashes."""
