"""JSON files and layers of verdicts. Equal input leaves equal bytes, file by file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.judged import EVIDENCE, TEXTS, TIMES

KEY = ("hash", "key")


def with_zeros(rows: DataFrame) -> DataFrame:
    """Return rows of verdicts with 0 for each figure that is null, other than times."""
    others = {*KEY, *TEXTS, *TIMES, EVIDENCE}
    return rows.withColumns({name: F.expr(f"coalesce({name}, 0L)") for name in rows.columns if name not in others})


def newest_rows(layered: DataFrame) -> DataFrame:
    """Return the newest of the rows of each key by their `layer`, without that column."""
    columns = [name for name in layered.columns if name not in (*KEY, "layer")]
    whole = F.struct("layer", *columns).alias("row")
    newest = layered.select(*KEY, whole).groupBy(*KEY).agg(F.max_by("row", "row.layer").alias("row"))
    return newest.select(*KEY, *(f"row.{name}" for name in columns))


def pretty(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON. Equal documents give equal bytes."""
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def json_lines(rows: Iterable[Mapping[str, Any]], *, sort: bool = True) -> str:
    """Return rows as JSON lines."""
    return "".join(json.dumps(row, sort_keys=sort) + "\n" for row in rows)
