"""Locations of rejected lines. Only files that contain any are read again."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.read import sources
from oneslot.pipeline.read.history import History
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.storage import literal
from oneslot.pipeline.vocabulary import PROBLEM_SENTENCES, Kind, Problem

LISTED = 1_000
GZIPPED = "\x1f\ufffd"  # the first two bytes of a gzip file; the second is not UTF-8


def locate_rejects(spark: SparkSession, history: History, path: str) -> list[dict[str, object]]:
    """Return line number (from 1) and problem of the first thousand rejected lines of a file. The text may be personal.

    Raises AuditRefused if the file is gzipped and not named so.
    """
    name = source_of(history, path)
    schema = StructType([*history.schema_of(name), StructField(CORRUPT, StringType())])
    # A file that is read as text in one piece is one partition, so these ids count its lines from 0.
    lines = spark.read.option("lineSep", "\n").text(literal(path)).coalesce(1)
    (first,) = lines.take(1)
    if first.value.startswith(GZIPPED):
        raise AuditRefused(f"{path} is gzipped, but its name does not end in .gz. Rename it, or unpack it.")
    numbered = lines.select(F.monotonically_increasing_id().alias("line"), F.col("value"))
    fields = F.from_json("value", schema, {"columnNameOfCorruptRecord": CORRUPT}).alias("row")
    parsed = numbered.where(F.trim("value") != "").select("line", fields, F.expr(sources.unread(name)).alias("more"))
    place = F.concat(F.lit(path), F.lit("\t"), F.col("line")).alias(PATH)
    rows = parsed.select("row.*", "more", place).withColumn(CORRUPT, F.coalesce(CORRUPT, "more"))
    rejected = history.facts_of(name, rows).where((F.col("kind") == int(Kind.REJECT)) & (F.col("sign") > 0))
    where = F.split_part("key", F.lit("\t"), F.lit(2)).cast("bigint") + 1
    found = rejected.select(where.alias("line"), "code").orderBy("line").limit(LISTED).collect()
    return [
        {
            "file": path,
            "line": row.line,
            "problem": Problem(row.code).name.lower(),
            "detail": PROBLEM_SENTENCES[Problem(row.code)],
        }
        for row in found
    ]


def source_of(history: History, path: str) -> str:
    """Return the source that a file belongs to. `path` is as Spark names it, whichever name the history's folder was given."""
    tables = {f"/{table}/{file.path}": table for table, export in history.exports.items() for file in export.files}
    logs = {path.removeprefix(history.folder): name for name, paths in history.lines.items() for path in paths}
    return next(name for tail, name in {**tables, **logs}.items() if path.endswith(tail))
