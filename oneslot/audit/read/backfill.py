"""A historical file of requests, each request once, ready for the queue or the ledger.

The caller hands in the function that Spark's executors run on the rows, so this module knows no service. That function must
be idempotent: after a crash the file is run again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.errors import AuditRefused, explain_spark_error
from oneslot.audit.read.request_files import FIELDS, unreadable

CONTENT_PREFIX = "content-"
# Bounds the memory for a file whose id column is wrong, which may have millions of conflicts.
CONFLICTS_NAMED = 10_000


@dataclass(frozen=True)
class Deduplicated:
    """The distinct requests of a file.

    Attributes:
        rows: message_id and body (JSON text), each message_id once. An id with several contents is not among them, because
            only its owner knows which content is right.
        read: the number of rows of the file.
        empty: rows without any value, as spreadsheets leave them behind.
        duplicates: further copies of a request.
        conflicts: ids with several contents.
        first_conflicts: up to CONFLICTS_NAMED of these ids, sorted.
    """

    rows: DataFrame
    read: int
    empty: int
    duplicates: int
    conflicts: int
    first_conflicts: list[str]


Handler = Callable[[Iterable[Row]], Mapping[str, int]]
"""Runs on an executor's rows, and returns how many of them had which outcome."""


def deduplicate(requests: DataFrame) -> Deduplicated:
    """Return each request once: by its message_id, or without one by the SHA-256 of its content.

    Reads the file. Raises AuditRefused if it cannot be read to its end.
    """
    said = F.struct(*(F.col(name) for name in sorted(FIELDS) if name != "message_id"))
    of_content = F.concat(F.lit(CONTENT_PREFIX), F.sha2(F.to_json(said), 256))
    is_empty = F.coalesce(*(F.col(name) for name in FIELDS)).isNull()
    identity = F.when(~is_empty, F.coalesce(F.col("message_id"), of_content))
    identified = requests.select(identity.alias("message_id"), said.alias("content"))
    grouped = identified.groupBy("message_id").agg(
        F.count("*").alias("copies"), F.min("content").alias("content"), F.max("content").alias("other")
    )
    cached = grouped.persist(StorageLevel.MEMORY_AND_DISK)
    identified_ones = cached.where(F.col("message_id").isNotNull())
    differ = F.col("content") != F.col("other")
    empty_copies = F.when(F.col("message_id").isNull(), F.col("copies"))
    try:
        totals = cached.agg(
            F.sum("copies"),
            F.sum(empty_copies),
            F.count("message_id"),
            F.count_if(F.col("message_id").isNotNull() & differ),
        ).collect()[0]
    except (CapturedException, Py4JJavaError) as error:
        raise AuditRefused(unreadable(error)) from error
    read, empty, distinct, conflicts = (int(total or 0) for total in totals)
    named = identified_ones.where(differ).select("message_id").orderBy("message_id").limit(CONFLICTS_NAMED).collect()
    body = F.to_json(F.struct("message_id", "content.*"))
    rows = identified_ones.where(~differ).select("message_id", body.alias("body"))
    return Deduplicated(rows, read, empty, read - empty - distinct, conflicts, [row.message_id for row in named])


def feed(rows: DataFrame, handle: Handler, executors: int) -> Counter[str]:
    """Run `handle` on every row, on `executors` executors at once; return the sum of their counts.

    To bound the rate give each executor a share of it. Raises AuditRefused with the reason of the first executor that failed.
    """

    def part(of_one: Iterable[Row]) -> Iterable[dict[str, int]]:
        yield dict(handle(of_one))

    total: Counter[str] = Counter()
    try:
        for answered in rows.repartition(executors, "message_id").rdd.mapPartitions(part).collect():
            total.update(answered)
    except (CapturedException, Py4JJavaError) as error:
        raise AuditRefused(
            f"The backfill stopped: {_reason(error)} Run the same command again; requests handed over before count once."
        ) from error
    return total


def _reason(error: Exception) -> str:
    """Return the message of the exception that a worker raised, found in the text of Spark's error."""
    raised = re.findall(
        r"^(?:\w+\.)*\w*(?:Error|Exception|Exceeded\w*|NotFound\w*|DoesNotExist): (.+)$", str(error), re.MULTILINE
    )
    return f"{raised[0].strip().rstrip('.')}." if raised else explain_spark_error(error)
