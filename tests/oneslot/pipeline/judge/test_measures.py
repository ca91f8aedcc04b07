"""Measures are exact, in whatever order facts and days are merged."""

from __future__ import annotations

import random
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

from oneslot.pipeline.judge.measures import Measures
from oneslot.pipeline.vocabulary import Delivered, Kind
from workload.audit.model import MEASURES
from workload.audit.vocabulary import Outcome, OwnKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_packed_sums_equal_single_sums(spark: SparkSession) -> None:
    """For random facts with many more -1 than a history has."""
    from pyspark.sql import functions as F  # noqa: N812

    from oneslot.pipeline.judge import measures
    from oneslot.pipeline.read.facts import FACT_COLUMNS

    luck = random.Random(71)
    schema = ", ".join(f"{name} {kind}" for name, kind in FACT_COLUMNS.items())
    rows = [
        (
            luck.choice(("a", "b", "c", "#d", "!e", "?f")),
            int(luck.choice([*Kind, *OwnKind])),
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
    columns = [F.col(name) for name in MEASURES.columns]
    packed = sorted(measures.gather(facts, 2, MEASURES).select(*columns).collect(), key=lambda row: row.key)
    alone = sorted(
        measures.gather(facts, 2, Measures(MEASURES.all, ())).select(*columns).collect(), key=lambda row: row.key
    )
    assert packed == alone
    assert len(packed) == 6
    assert any(row.held_slots < 0 and row.cancellations < 0 and row.expects_cancelled < 0 for row in packed)


@pytest.mark.parametrize("copies", [524_288, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_counts_are_exact_when_one_id_has_many_deliveries(spark: SparkSession, copies: int) -> None:
    from oneslot.pipeline.judge import measures

    facts = spark.range(copies).selectExpr(*fact_of("m", Kind.DELIVERY, code=Delivered.DUPLICATE))

    (row,) = measures.gather(facts, 1, MEASURES).collect()

    assert (row.deliveries, row.deliveries_done, row.deliveries_duplicate) == (copies, copies, copies)
    others = {measure.name for measure in MEASURES.all if measure.starts_at_zero} - {
        "deliveries",
        "deliveries_done",
        "deliveries_duplicate",
    }
    assert {name: row[name] for name in others if row[name]} == {}


@pytest.mark.slow
def test_sums_are_exact_when_an_export_repeats_a_row(spark: SparkSession) -> None:
    """In the old images of changes, which are taken back. 70,000 rows of the largest code exceed 20 bits."""
    from oneslot.pipeline.judge import measures

    facts = [
        spark.range(70_000).selectExpr(*fact_of(kind.name, kind, code=9, number=9, sign=-1))
        for kind in (Kind.LEDGER, OwnKind.APPOINTMENT, OwnKind.SLOT)
    ]

    gathered = measures.gather(reduce(DataFrame.unionAll, facts), 1, MEASURES).collect()

    packed = [name for pair in MEASURES.packed for name in pair]
    assert {row.key: {name: row[name] for name in packed if row[name]} for row in gathered} == {
        "LEDGER": dict.fromkeys(("ledger_rows", "ledger_complete"), -70_000) | {"ledger_outcome": -630_000},
        "APPOINTMENT": {"appointment_rows": -70_000}
        | dict.fromkeys(("appointment_status", "appointment_channel"), -630_000),
        "SLOT": {"slot_rows": -70_000, "slot_status": -630_000},
    }


def test_overflow_is_refused_by_name(spark: SparkSession) -> None:
    from pyspark.errors import ArithmeticException

    from oneslot.pipeline.errors import explain_spark_error
    from oneslot.pipeline.judge import measures

    facts = spark.range(2).selectExpr(*fact_of("m", OwnKind.CANCELLED, at=1 << 62))

    with pytest.raises(ArithmeticException) as overflow:
        measures.gather(facts, 1, MEASURES).collect()
    assert explain_spark_error(overflow.value).startswith("One id has more rows in a source than the audit can add up")


def fact_of(key: str, kind: Kind | OwnKind, **values: int) -> list[str]:
    """Return SQL for the columns of one fact."""
    from oneslot.pipeline.read.facts import FACT_COLUMNS

    given = {"key": f"'{key}'", "kind": int(kind), "sign": 1, "code": 0, "number": 0, "link": 0, **values}
    return [f"CAST({given.get(name, 'NULL')} AS {of}) AS {name}" for name, of in FACT_COLUMNS.items()]


LIFE: tuple[tuple[Kind, dict[str, int]], ...] = (
    (Kind.ACCEPTED, {"number": 2, "at": 10}),
    (Kind.ACCEPTED, {"number": 1, "at": 7}),
    (Kind.ACCEPTED, {"number": 1, "at": 8}),
    (Kind.DELIVERY, {"code": Delivered.FENCED, "number": 3, "at": 50, "until": 14, "link": 65}),
    (Kind.DELIVERY, {"code": Delivered.QUARANTINED, "at": 13, "until": 12}),
    (Kind.DELIVERY, {"code": Delivered.QUARANTINED, "at": 16, "until": 13}),
    (Kind.DELIVERY, {"code": Delivered.FAILED, "number": 1, "at": 17, "until": 11, "link": 1}),
    (Kind.DELIVERY, {"code": Delivered.DUPLICATE, "number": 2, "at": 20, "until": 15, "link": 3, "extra": 6}),
    (Kind.DELIVERY, {"code": Outcome.REFUSED, "number": 2, "at": 30, "until": 15, "link": 34, "extra": 9}),
    (Kind.DELIVERY, {"code": Outcome.BOOKED, "number": 2, "at": 40, "until": 15, "link": 3, "extra": 5}),
    (Kind.DELIVERY, {"code": Delivered.BUSY, "at": 21, "until": 15}),
    (Kind.DEAD_LETTER, {}),
    (Kind.DEAD_LETTER, {}),
    (Kind.WAITING, {}),
    (Kind.DROPPED, {"at": 17}),
    (Kind.DROPPED, {"at": 19}),
    (Kind.DROPPED, {"at": 18}),
)
REMEMBERED = {
    "accepted_copies": 4,
    "accepted_sent": 7,
    "deliveries": 8,
    "deliveries_done": 3,
    "deliveries_duplicate": 1,
    "quarantined_at": 16,
    "delivered_outcome": int(Outcome.REFUSED),
    "delivery_sent": 11,
    "first_done": 30,
    "last_finished": 50,
    "consumptions_seen": 3,
    "claims_seen": 1 << 1 | 1 << 3 | 1 << 34,
    "claim_low": 1,
    "claim_high": 65,
    "answer_low": 5,
    "answer_high": 9,
    "dead_letters": 2,
    "waiting": 1,
    "dropped_at": 19,
}


def test_measures_of_a_request_merge_over_two_days(spark: SparkSession) -> None:
    """Counts, first and last times; only the queues are taken from the second day alone."""
    from oneslot.pipeline.judge import measures
    from oneslot.pipeline.read.facts import FACT_COLUMNS

    schema = ", ".join(f"{name} {kind}" for name, kind in FACT_COLUMNS.items())
    usual = {"key": "m", "sign": 1, "code": 0, "number": 0, "at": None, "until": None, "link": 0, "extra": None}

    def gathered(life: tuple[tuple[Kind, dict[str, int]], ...]) -> DataFrame:
        made = [{**usual, "kind": int(kind), **{name: int(value) for name, value in of.items()}} for kind, of in life]
        return measures.gather(
            spark.createDataFrame([tuple(row[name] for name in FACT_COLUMNS) for row in made], schema), 2, MEASURES
        )

    nothing = {measure.name: 0 if measure.starts_at_zero else None for measure in MEASURES.all}
    whole = {"key": "m", **nothing, **REMEMBERED}
    (row,) = gathered(LIFE).drop("hash").collect()
    assert row.asDict() == whole
    for yesterday, today in ((LIFE[::2], LIFE[1::2]), (LIFE[1::2], LIFE[::2])):
        (row,) = measures.merge(gathered(yesterday), gathered(today), 2, MEASURES).drop("hash").collect()
        queues = {kind: sum(of == kind for of, _ in today) for kind in (Kind.DEAD_LETTER, Kind.WAITING)}
        assert row.asDict() == {**whole, "dead_letters": queues[Kind.DEAD_LETTER], "waiting": queues[Kind.WAITING]}
