"""Evidence is exact, however the sums travel."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from pipeline.vocabulary import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_packed_sums_are_the_sums(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random facts with many more -1 than a history has: added as one number or each by itself, the evidence is the same."""
    from pyspark.sql import functions as F  # noqa: N812

    from pipeline import evidence
    from pipeline.facts import FACT_COLUMNS

    luck = random.Random(71)
    schema = ", ".join(f"{name} {kind}" for name, kind in FACT_COLUMNS.items())
    rows = [
        (
            luck.choice(("a", "b", "c", "#d", "!e", "?f")),
            int(luck.choice(list(Kind))),
            luck.choice((-1, -1, 1)),
            luck.randrange(10),
            luck.randrange(1_000),
            luck.randrange(10**12),
            luck.choice((None, luck.randrange(10**12))),
            luck.getrandbits(63) - 2**62,
            luck.choice((None, luck.getrandbits(40))),
        )
        for _ in range(3_000)
    ]
    facts = spark.createDataFrame(rows, schema)
    columns = [F.col(name) for name in evidence.EVIDENCE_COLUMNS]
    packed = sorted(evidence.gather(facts, 2).select(*columns).collect(), key=lambda row: row.key)
    monkeypatch.setattr(evidence, "PACKED", ())
    alone = sorted(evidence.gather(facts, 2).select(*columns).collect(), key=lambda row: row.key)
    assert packed == alone
    assert len(packed) == 6
    assert any(row.held_slots < 0 and row.cancellations < 0 and row.expects_cancelled < 0 for row in packed)
