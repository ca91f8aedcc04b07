"""The rows of an operations table: in Python while they are few, because a query costs more than they do, else in Spark."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.spark.storage import Storage

ARROW_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
ONLY_FILE = "part-00000.zstd.parquet"


@dataclass(frozen=True)
class FewRows:
    """Rows that Python holds. `columns` have Spark's types."""

    rows: list[dict[str, Any]]
    columns: Mapping[str, str]

    def sums(self, dimensions: Sequence[str], figures: Sequence[str]) -> list[dict[str, Any]]:
        """Return the sums of these figures for each value of these dimensions, sorted by them."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in self.rows:
            values = tuple(row[name] for name in dimensions)
            of_values = found.setdefault(values, dict.fromkeys(figures, 0))
            for name in figures:
                of_values[name] += row[name]
        return [dict(zip(dimensions, values, strict=True)) | found[values] for values in sorted(found)]

    def write(self, storage: Storage, folder: str, partition: str | None = None) -> None:
        """Write the table as Parquet, in a folder for each value of the column `partition`, with one file in each."""
        if not partition or not self.rows:  # an empty table has one file, which shows its columns
            write_parquet(storage, f"{folder}/{ONLY_FILE}", self.rows, self.columns)
            return
        columns = {name: kind for name, kind in self.columns.items() if name != partition}
        for value, rows in groupby(self.rows, itemgetter(partition)):
            write_parquet(storage, f"{folder}/{partition}={value}/{ONLY_FILE}", list(rows), columns)


@dataclass(frozen=True)
class ManyRows:
    """Rows that Spark holds. A large table has as many files as Spark's adaptive execution makes of its size."""

    frame: DataFrame

    def sums(self, dimensions: Sequence[str], figures: Sequence[str]) -> list[dict[str, Any]]:
        """Return the same from Spark."""
        summed = self.frame.groupBy(*dimensions).agg(*(F.sum(name).alias(name) for name in figures))
        return sorted((row.asDict() for row in summed.collect()), key=itemgetter(*dimensions))

    def write(self, storage: Storage, folder: str, partition: str | None = None) -> None:
        """Write the table as Parquet, in a folder for each value of the column `partition`."""
        writer = self.frame.write
        (writer.partitionBy(partition) if partition else writer).parquet(folder)
        if partition and not storage.names(folder):
            self.frame.limit(0).coalesce(1).write.mode("overwrite").parquet(folder)


Rows = FewRows | ManyRows
"""The sorted rows of a table, wherever they are."""


def write_parquet(storage: Storage, path: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Write a few rows as one file of Parquet, as Spark writes its own: compressed by zstd, without dictionaries."""
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
    table = pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema)
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", use_dictionary=False)
    storage.write(path, content.getvalue())
