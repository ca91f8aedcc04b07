"""Schemas of all sources. Each is explicit, so that Spark infers nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from oneslot.audit.spark.storage import literal

CORRUPT = "corrupt_line"
PATH = "path"

TEXT = StringType()
COUNT = IntegerType()
EPOCH_MS = LongType()


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
    """Read JSON lines into the columns of `schema`, `corrupt_line` (the text of an invalid line) and `path`.

    Text behind the object of a line makes the line invalid. Spark's own reader would skip it.
    """
    value = F.col("value")
    # In brackets the parser must read a line to its end. It replaces invalid bytes, which could turn two ids into one.
    listed = F.when(F.is_valid_utf8(value), F.concat(F.lit("["), value, F.lit("]")))
    objects = F.coalesce(F.from_json(listed, ArrayType(with_corrupt(schema))), _corrupt(schema, value))
    return _texts(spark, paths).select(PATH, F.inline(objects))


def read_log(spark: SparkSession, paths: list[str], name: str, schema: StructType | None = None) -> DataFrame:
    """Read the lines of a log into its columns, `corrupt_line` (the text of an invalid line) and `path`."""
    return parse_lines(_texts(spark, paths), name, schema or LINES[name])


def read_deliveries_of(spark: SparkSession, paths: list[str], message_ids: Sequence[str]) -> DataFrame:
    """Read all lines of the delivery log that may be about these messages, with the timelines' columns."""
    value = F.col("value")
    # An id that is written otherwise than it is has a backslash in it.
    named = reduce(Column.__or__, (value.contains(each) for each in message_ids), value.contains("\\"))
    return parse_lines(_texts(spark, paths).where(named), JOINED, TIMELINE)


def _texts(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.text([*map(literal, paths)]).select("value", F.expr(f"_metadata.file_path AS {PATH}"))


def _corrupt(schema: StructType, line: Column) -> Column:
    """Return the row of an invalid line, in a list."""
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return F.array(F.struct(*nothing, line.alias(CORRUPT)))


def parse_lines(lines: DataFrame, name: str, schema: StructType) -> DataFrame:
    """Replace the text `value` of each line by the columns of `schema` and `corrupt_line`. Other columns stay.

    A list becomes a row for each element, and white space none. Where Spark reads only a part of a line, the text has a row
    of its own, as an invalid line has.
    """
    kept = [column for column in lines.columns if column != "value"]
    several = ArrayType(with_corrupt(schema))

    def one(line: Column) -> Column:
        # `from_json` replaces invalid bytes, which could turn two ids into one. Spark's own reader refuses them.
        objects = F.when(F.is_valid_utf8(line), F.from_json(line, several))
        whole = F.coalesce(objects, F.when(line.rlike(r"\S"), _corrupt(schema, line)))
        part = F.concat(F.coalesce(objects, F.array()), _corrupt(schema, line))
        return F.when(unread(line, name), part).otherwise(F.coalesce(whole, F.array()))

    value = F.col("value")
    if name != JOINED:
        return lines.select(*kept, F.inline(one(value)))
    joined = value.startswith(CONTROL) | (unread(value, name) & value.rlike(JOINT))
    return lines.select(
        *kept, F.inline(F.when(joined, F.flatten(F.transform(pieces(value), one))).otherwise(one(value)))
    )


JOINED = "deliveries"
CONTROL = "CWL CONTROL MESSAGE"
"""How CloudWatch Logs begins the line that it sends through a subscription to check the destination."""
JOINT = r"\}(?:\{|" + CONTROL + ")"
"""Matches where an object ends and the next begins on the same line."""


def pieces(value: Column) -> Column:
    """Return the objects in a text. Firehose may join deliveries without a line break, and control messages with them."""
    # Inside a text a quote is escaped, so these letters begin an object.
    objects = F.split(F.regexp_replace(value, CONTROL + r"[^{]*", ""), r'(?<=\})(?=\{"\w+"\s*:)')
    return F.filter(objects, lambda line: line != "")


def unread(line: Column, name: str) -> Column:
    """Return true where Spark would read only a part of a line of the source `name`.

    Spark takes the first object of a line and the members that the schema names. So it would miss text after that object, and
    an envelope with deliveries inside, which would pass for another line of the consumer.
    """
    found = F.coalesce(F.json_array_length(F.concat(F.lit("["), line, F.lit("]"))) != 1, F.lit(True))
    if name == JOINED:
        message = F.coalesce(F.get_json_object(line, "$.message"), F.get_json_object(line, "$[0].message"), F.lit(""))
        found |= line.rlike(DELIVERY_WITHIN) & (message != "delivery")
    # The first condition is cheap, and settles nearly every line: an object without another object inside.
    unusual = ~line.endswith("}") | F.contains(F.substr(line, F.lit(2)), F.lit("{"))
    return F.when(unusual & F.get_json_object(line, "$").isNotNull(), found).otherwise(F.lit(False))


DELIVERY_WITHIN = r'message\\*"\s*:\s*\\*"delivery\\*"'
"""Matches a member of a delivery's line, inside an object or inside quoted text, where quotes have backslashes."""
