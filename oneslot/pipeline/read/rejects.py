"""Which lines were rejected, and why. Only files that have any are read again."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.judge import facts
from oneslot.pipeline.read import sources
from oneslot.pipeline.read.history import TABLES, History
from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.storage import literal
from oneslot.pipeline.vocabulary import PROBLEM_SENTENCES, Kind, Problem

LISTED = 1_000
GZIPPED = "\x1f\ufffd"  # the first two bytes of all that is gzipped; the second is no text


def locate_rejects(spark: SparkSession, history: History, path: str) -> list[dict[str, object]]:
    """The rejected lines of one file: number (from 1) and problem; the first thousand. The line itself may be personal.

    Raises AuditRefused if the file is not text.
    """
    name = source_of(history, path)
    schema = line_schema(history, name)
    # A file is one partition when it is read as text in one piece, and then these ids count its lines from 0.
    lines = spark.read.option("lineSep", "\n").text(literal(path)).coalesce(1)
    (first,) = lines.take(1)
    if first.value.startswith(GZIPPED):
        raise AuditRefused(f"{path} is gzipped: only what ends in .gz is unpacked, and once. Rename it, or unpack it.")
    numbered = lines.select(F.monotonically_increasing_id().alias("line"), F.col("value"))
    fields = F.from_json("value", schema, {"columnNameOfCorruptRecord": CORRUPT}).alias("row")
    parsed = numbered.where(F.trim("value") != "").select("line", fields, F.expr(sources.unread(name)).alias("more"))
    place = F.concat(F.lit(path), F.lit("\t"), F.col("line")).alias(PATH)
    rows = parsed.select("row.*", "more", place).withColumn(CORRUPT, F.coalesce(CORRUPT, "more"))
    rejected = _facts(history, name, rows).where((F.col("kind") == int(Kind.REJECT)) & (F.col("sign") > 0))
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
    """The name of the source that a file belongs to. `path` is as Spark names it, however the history's folder was named."""
    tables = {f"/{table}/{file.path}": table for table, export in history.exports.items() for file in export.files}
    logs = {path.removeprefix(history.folder): name for name, paths in history.lines.items() for path in paths}
    return next(name for tail, name in {**tables, **logs}.items() if path.endswith(tail))


def line_schema(history: History, name: str) -> StructType:
    """The schema of a line of a source, with the column for what does not fit."""
    if name in TABLES:
        full = history.exports[name].full
        schema = sources.full_export_schema(name) if full else sources.incremental_export_schema(name)
    else:
        schema = sources.LINES[name]
    return StructType([*schema, StructField(CORRUPT, StringType())])


def _facts(history: History, name: str, rows: DataFrame) -> DataFrame:
    if name not in TABLES:
        return history.line_facts(name, rows)
    export = history.exports[name]
    items = facts.whole_items(rows) if export.start is None else facts.images(rows, export.start, export.end)
    return facts.TABLE_FACTS[name](items)
