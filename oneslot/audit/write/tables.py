"""Tables as Parquet files, which Arrow writes and reads. Equal rows leave equal bytes, file by file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from oneslot.audit.files import place_of, write_file

ARROW_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}


def write_parquet(path: str, table: pa.Table) -> None:
    """Write a table as one file: compressed by zstd, and without dictionaries, which few of the columns repay."""
    write_file(
        path,
        partial(
            pq.write_table,
            table,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            version="2.6",
            data_page_version="2.0",
        ),
    )


def part_name(number: int) -> str:
    """Return the name of a file of a table."""
    return f"part-{number:05d}.zstd.parquet"


def write_rows(folder: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Write a few rows as one file. `columns` have Spark's types."""
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
    table = pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema)
    write_parquet(f"{folder}/{part_name(0)}", table)


def write_part(folder: str, number: int, table: pa.Table, partition: str | None) -> None:
    """Write sorted rows as a file, or as one in a folder for each value of the column `partition`."""
    if partition is None:
        write_parquet(f"{folder}/{part_name(number)}", table)
        return
    ends = pc.run_end_encode(table[partition].combine_chunks())
    starts = [0, *ends.run_ends.to_pylist()]
    for value, start, end in zip(ends.values.to_pylist(), starts, starts[1:], strict=False):
        rows = table.slice(start, end - start).drop_columns([partition])
        write_parquet(f"{folder}/{partition}={value}/{part_name(number)}", rows)


@dataclass(frozen=True)
class WrittenTable:
    """An operations table in its files. Arrow reads the columns that are asked for."""

    folder: str
    schema: pa.Schema
    partition: str | None = None

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of all files; none without a file."""
        system, inside = place_of(self.folder)
        of = ds.partitioning(pa.schema([(self.partition, pa.string())]), flavor="hive") if self.partition else None
        names = [*(columns or self.schema.names)]
        try:
            found = ds.dataset(inside, filesystem=system, format="parquet", partitioning=of, schema=self.schema)
        except FileNotFoundError:
            return self.schema.empty_table().select(names)
        return found.to_table(columns=names)

    def sums(self, dimensions: Sequence[str], figures: Sequence[str]) -> list[dict[str, Any]]:
        """Return the sums of these figures for each value of these dimensions, sorted by them."""
        found = grouped(self.read([*dimensions, *figures]), dimensions, figures)
        ordered: list[dict[str, Any]] = found.sort_by([(name, "ascending") for name in dimensions]).to_pylist()
        return ordered


def grouped(rows: pa.Table, dimensions: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """Return the sums of these figures for each value of these dimensions."""
    found = rows.group_by([*dimensions], use_threads=False).aggregate([(name, "sum") for name in figures])
    named = found.rename_columns([name.removesuffix("_sum") for name in found.column_names])
    return named.select([*dimensions, *figures])
