"""Locations of rejected lines. Only files that contain any are read again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.errors import AuditRefused
from oneslot.audit.judged import REJECTED
from oneslot.audit.read import sources
from oneslot.audit.read.history import History
from oneslot.audit.read.sources import PATH
from oneslot.audit.spark.storage import literal
from oneslot.audit.vocabulary import PROBLEM_SENTENCES
from oneslot.laws.form import Problem

LISTED = 1_000
GZIPPED = "hex(substring(CAST(value AS BINARY), 1, 2)) = '1F8B'"
"""SQL that is true where a line begins as a gzip file does."""
ROW_BITS = 33  # of monotonically_increasing_id, below the number of the partition
WHOLE_FILES = dict.fromkeys(("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"), str(1 << 40))
"""Opening a file seems to cost as much as a partition may hold, so Spark puts one whole file into each."""


def locate_rejects(spark: SparkSession, history: History, paths: Iterable[str]) -> list[dict[str, object]]:
    """Return file, line (from 1) and problem of the first thousand rejected lines. The text may be personal.

    Each source with such lines is read by one query. Raises AuditRefused for a file that is gzipped twice, or not named so.
    """
    source_of = source_finder(history)
    by_source: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_source.setdefault(source_of(path), []).append(path)
    found = []
    for name, of_source in by_source.items():
        with one_partition_a_file(spark):
            found += rejected_lines(spark, history, name, of_source).collect()
    for row in found:
        if row.gzipped:
            file = unquote(row.file)
            remedy = (
                "is gzipped twice. Unpack it once"
                if file.endswith(".gz")
                else "is gzipped, but its name does not end in .gz. Rename it, or unpack it"
            )
            raise AuditRefused(f"{file} {remedy}.")
    return [
        {
            "file": unquote(row.file),  # Spark names files as URLs
            "line": row.line,
            "problem": Problem(row.code).name.lower(),
            "detail": PROBLEM_SENTENCES[Problem(row.code)],
        }
        for row in sorted(found, key=lambda row: (row.file, row.line))[:LISTED]
    ]


def rejected_lines(spark: SparkSession, history: History, name: str, paths: list[str]) -> DataFrame:
    """Return the first thousand rejected lines in files of one source: gzipped, file, line, code.

    Files whose first line shows that they are gzipped come first.
    """
    text = spark.read.option("lineSep", "\n").text([*map(literal, paths)])
    number = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << ROW_BITS) - 1))
    numbered = text.select("value", number.alias("line"), F.col("_metadata.file_path").alias("file"))
    # A reject's key is its file. Here it also carries the line, and whether that shows a gzipped file.
    place = F.concat_ws("\t", (F.col("line") > 0) | ~F.expr(GZIPPED), F.col("line") + 1, F.col("file")).alias(PATH)
    rows = sources.parse_lines(numbered.select("value", place), name, history.schema_of(name))
    consumer = AuditConsumer(history.model.declaration, tuple(sys.path))
    rejected = history.carried_of(name, rows, consumer).where(f"place = {REJECTED}")
    parts = F.split(F.substring("key", 2, 100_000), "\t", 3)
    located = rejected.select(
        (parts[0] == "false").alias("gzipped"),
        parts[2].alias("file"),
        parts[1].cast("bigint").alias("line"),
        F.expr("CAST(row AS INT) AS code"),
    )
    return located.orderBy(F.desc("gzipped"), "file", "line").limit(LISTED)


@contextmanager
def one_partition_a_file(spark: SparkSession) -> Iterator[None]:
    """Plan scans with a partition for each whole file, so that the ids of rows count the lines of a file from 0."""
    before = {name: str(spark.conf.get(name)) for name in WHOLE_FILES}
    try:
        for name, value in WHOLE_FILES.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def source_finder(history: History) -> Callable[[str], str]:
    """Return the function from a file to its source. A path is as Spark names it, whichever name the history's folder has."""
    tables = {f"/{table}/{file.path}": table for table, export in history.exports.items() for file in export.files}
    logs = {path.removeprefix(history.folder): name for name, paths in history.lines.items() for path in paths}
    sources_by_tail = {**tables, **logs}

    def source_of(path: str) -> str:
        slashes = (place for place, letter in enumerate(path) if letter == "/")
        return next(sources_by_tail[path[at:]] for at in slashes if path[at:] in sources_by_tail)

    return source_of
