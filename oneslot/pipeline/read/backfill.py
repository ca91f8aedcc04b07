"""A historical file of requests → each request once, ready to be fed to a queue or entered into a ledger.

The transforms are here; what happens to a row is the caller's, handed in and run on the executors, so that no service is
known here. Whatever it does with a row must count once however often it is done: after a crash the file is run again.
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

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.read.request_files import FIELDS, unreadable
from oneslot.pipeline.write.outputs import sentence_of

CONTENT_PREFIX = "content-"
# A file with a wrong column for its ids has millions, which nobody reads and this process need not hold.
CONFLICTS_NAMED = 10_000


@dataclass(frozen=True)
class Deduplicated:
    """`rows` has message_id and body (JSON text), each message_id once. Ids with several contents are not in `rows`,
    because nobody but their owner can say which content is meant: so many `conflicts`, and the first of them by name. Of
    the rows that were `read`, `empty` ones say nothing at all, as a spreadsheet leaves them behind: they are no requests.
    """

    rows: DataFrame
    read: int
    empty: int
    duplicates: int
    conflicts: int
    first_conflicts: list[str]


Handler = Callable[[Iterable[Row]], Mapping[str, int]]
"""What an executor does with its rows; answers how many of them came to what."""


def deduplicate(requests: DataFrame) -> Deduplicated:
    """Each request once: by its message_id, or where it has none by the SHA-256 of its content.

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
    """Hand every row to `handle`, on as many executors at once; returns the sum of what they answered.

    A rate is bounded by giving each executor its part of it. Raises AuditRefused with the first executor's reason to stop.
    """

    def part(of_one: Iterable[Row]) -> Iterable[dict[str, int]]:
        yield dict(handle(of_one))

    total: Counter[str] = Counter()
    try:
        for answered in rows.repartition(executors, "message_id").rdd.mapPartitions(part).collect():
            total.update(answered)
    except (CapturedException, Py4JJavaError) as error:
        raise AuditRefused(
            f"It stopped on the way: {_reason(error)} Run the same command again: what was handed over before counts once."
        ) from error
    return total


def _reason(error: Exception) -> str:
    """The sentence of the exception that a worker raised, out of the text that Spark makes of it."""
    raised = re.findall(
        r"^(?:\w+\.)*\w*(?:Error|Exception|Exceeded\w*|NotFound\w*|DoesNotExist): (.+)$", str(error), re.MULTILINE
    )
    return f"{raised[0].strip().rstrip('.')}." if raised else sentence_of(error)
