"""Spark's tables as files: verdicts, sorted tables and JSON lines. Equal input leaves equal bytes, file by file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.judged import KEPT, TEXTS, TIMES
from oneslot.audit.spark.storage import Storage, literal

KEY = ("hash", "key")


def write_verdicts(judged: DataFrame, folder: str) -> DataFrame:
    """Write verdicts as Parquet, and return the written rows. The stage leaves out figures of 0, which take no space."""
    written = judged.selectExpr("xxhash64(key) AS hash", "*")
    written.write.parquet(folder)
    # The columns are known, which saves the job that finds them.
    return with_zeros(written.sparkSession.read.schema(written.schema).parquet(literal(folder)))


def with_zeros(rows: DataFrame) -> DataFrame:
    """Return rows of verdicts with 0 for each figure that is null, other than times."""
    others = {*KEY, *TEXTS, *TIMES, *KEPT}
    return rows.withColumns({name: F.expr(f"coalesce({name}, 0L)") for name in rows.columns if name not in others})


def newest_rows(layered: DataFrame) -> DataFrame:
    """Return the newest of the rows of each key by their `layer`, without that column."""
    columns = [name for name in layered.columns if name not in (*KEY, "layer")]
    whole = F.struct("layer", *columns).alias("row")
    newest = layered.select(*KEY, whole).groupBy(*KEY).agg(F.max_by("row", "row.layer").alias("row"))
    return newest.select(*KEY, *(f"row.{name}" for name in columns))


def write_lines(storage: Storage, rows: DataFrame, path: str) -> None:
    """Write rows as one file of JSON lines, in the rows' order."""
    rows.select(F.to_json(F.struct(*rows.columns)).alias("value")).coalesce(1).write.text(f"{path}.parts")
    (part,) = (name for name in storage.names(f"{path}.parts") if name.startswith("part-"))
    storage.rename(f"{path}.parts/{part}", path)
    storage.delete(f"{path}.parts")


def collect_together(results: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of small results by their names, in any order, from one query. Queries are most of a little audit."""
    row = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
    named = (rows.select(F.lit(name).alias("name"), row) for name, rows in results.items())
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in results}
    for name, text in reduce(DataFrame.unionAll, named).collect():
        found[name].append(json.loads(text))
    return found


def pretty(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON. Equal documents give equal bytes."""
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def json_lines(rows: list[dict[str, Any]]) -> str:
    """Return rows as JSON lines with sorted members."""
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
