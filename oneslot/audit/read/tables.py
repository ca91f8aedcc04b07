"""Items of exports with their signs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.read.sources import CORRUPT, PATH


def images(changes: DataFrame, start: int, end: int) -> DataFrame:
    """Return the items of an incremental export with a sign: -1 for an old image, +1 for a new one.

    `start` and `end` (epoch ms) are the export's window. A change outside it is marked, and rejected later.
    """
    written = F.col("Metadata.WriteTimestampMicros.N").try_cast("bigint")
    outside = F.coalesce((written < start * 1000) | (written >= end * 1000), F.lit(False))
    empty = F.col("OldImage").isNull() & F.col("NewImage").isNull()
    # A line outside the window is rejected once: by its new image if it has one, else by its old one.
    taken_back = F.col("OldImage").isNotNull() & ~(outside & F.col("NewImage").isNotNull())
    old = F.when(taken_back, F.struct(F.lit(-1).alias("sign"), F.col("OldImage").alias("Item")))
    # A line without images is kept once, so that it is rejected and counted.
    new = F.when(
        F.col("NewImage").isNotNull() | empty, F.struct(F.lit(1).alias("sign"), F.col("NewImage").alias("Item"))
    )
    both = changes.select(F.explode(F.array(old, new)).alias("image"), outside.alias("outside"), CORRUPT, PATH)
    return both.where(F.col("image").isNotNull()).select("image.Item", "image.sign", "outside", CORRUPT, PATH)


def whole_items(items: DataFrame) -> DataFrame:
    """Return the items of a full export with the sign +1."""
    return items.select("Item", F.lit(1).alias("sign"), F.lit(False).alias("outside"), CORRUPT, PATH)
