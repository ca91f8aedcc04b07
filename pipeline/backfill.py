"""A historical file of requests → each request once, ready to be fed to a queue or entered into a ledger.

The transforms are here; what happens to a row is the caller's, handed in and run on the executors, so that no service is
known here. Whatever it does with a row must count once however often it is done: after a crash the file is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline.errors import AuditRefused

BOOKING = ("practice", "nhs_number", "not_before", "not_after", "delivery_channel", "service_type")
CANCELLATION = ("appointment_id",)
FIELDS = ("message_id", "type", *BOOKING, *CANCELLATION)
CONTENT_PREFIX = "content-"


@dataclass(frozen=True)
class Deduplicated:
    """`rows` has message_id and body (JSON text), each message_id once. `conflicts` are ids with several contents: they
    are not in `rows`, because nobody but their owner can say which content is meant."""

    rows: DataFrame
    read: int
    duplicates: int
    conflicts: list[str]


def read_requests(spark: SparkSession, path: str) -> DataFrame:
    """A CSV file with a header, or Parquet; every column as text. Raises AuditRefused with a sentence."""
    suffix = PurePosixPath(path.removesuffix(".gz")).suffix.lower()
    if suffix == ".csv":
        # A quote inside quotes is doubled (RFC 4180), as every spreadsheet writes it; Spark's default is a backslash.
        read = spark.read.option("header", "true").option("escape", '"').option("mode", "FAILFAST").csv(path)
    elif suffix in (".parquet", ""):
        read = spark.read.parquet(path)
    else:
        raise AuditRefused(f"{path} is neither .csv (or .csv.gz) nor .parquet; convert it to one of them.")
    if "type" not in read.columns or not {"practice", "appointment_id"} & set(read.columns):
        raise AuditRefused(
            f"{path} has the columns {', '.join(read.columns)}; a request needs `type` and, for bookings, "
            f"{', '.join(BOOKING)}; for cancellations, appointment_id."
        )
    return read.select(*(_column(read, name) for name in FIELDS))


def deduplicate(requests: DataFrame) -> Deduplicated:
    """Each request once: by its message_id, or where it has none by the SHA-256 of its content."""
    content = F.to_json(F.struct(*(F.col(name) for name in sorted(FIELDS) if name != "message_id")))
    identity = F.coalesce(F.col("message_id"), F.concat(F.lit(CONTENT_PREFIX), F.sha2(content, 256)))
    identified = requests.select(identity.alias("message_id"), content.alias("content"))
    grouped = identified.groupBy("message_id").agg(
        F.count("*").alias("copies"), F.min("content").alias("content"), F.max("content").alias("other")
    )
    cached = grouped.persist()
    conflicts = cached.where(F.col("content") != F.col("other")).select("message_id").orderBy("message_id")
    totals = cached.agg(F.sum("copies"), F.count("*")).collect()[0]
    read, distinct = int(totals[0] or 0), int(totals[1])
    body = F.concat(F.lit('{"message_id":"'), F.col("message_id"), F.lit('",'), F.substring("content", 2, 2_000_000))
    rows = cached.where(F.col("content") == F.col("other")).select("message_id", body.alias("body"))
    return Deduplicated(rows, read, read - distinct, [row.message_id for row in conflicts.collect()])


def feed(rows: DataFrame, handle: Callable[[Iterable[Row]], None], executors: int) -> None:
    """Hand every row to `handle`, on as many executors at once. A rate is bounded by giving each its part of it."""
    rows.repartition(executors, "message_id").foreachPartition(handle)


def _column(read: DataFrame, name: str) -> Column:
    if name not in read.columns:
        return F.lit(None).cast("string").alias(name)
    text = F.trim(F.col(name).cast("string"))
    return F.when(text != "", text).alias(name)
