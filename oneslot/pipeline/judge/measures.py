"""Facts, summed up to one row of measures for each key.

Every measure is a sum, an exclusive or, a minimum, a maximum or a bitwise or. So the measures of two sets of facts merge
into the measures of both, and an old image with the sign -1 takes back what it added. Yesterday's measures and today's
changes therefore give today's measures exactly: that is the whole incremental audit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.vocabulary import ROW_PREFIX, Delivered, Kind

KEY = ("hash", "key")
"""The columns that rows are grouped and sorted by. The hash comes first, because comparing it rarely needs the text."""


CODES = 256
"""The number of codes that a fact may have."""

_AGGREGATES = {"sum": "sum", "xor": "bit_xor", "or": "bit_or", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Measure:
    """One measure: the kinds of facts that it reads, its value for a fact, and how values are merged.

    `value` is SQL over the columns of a fact. As column objects it would cost a dozen calls to Java.
    """

    name: str
    kinds: tuple[int, ...]
    value: str
    merge: str
    snapshot: bool = False

    @property
    def starts_at_zero(self) -> bool:
        """Return whether the measure of no facts is 0 rather than null. Minimum and maximum are null then."""
        return self.merge not in ("min", "max")

    def of_fact(self) -> str:
        """Return SQL for the value that one fact adds."""
        mine = f"CASE WHEN kind IN ({', '.join(str(int(kind)) for kind in self.kinds)}) THEN {self.value} END"
        return f"coalesce({mine}, 0L)" if self.starts_at_zero else mine

    def over_facts(self) -> Column:
        """Return the aggregate over facts."""
        return F.expr(f"{_AGGREGATES[self.merge]}({self.of_fact()}) AS {self.name}")

    def over_measures(self) -> Column:
        """Return the aggregate over rows of measures."""
        return F.expr(f"{_AGGREGATES[self.merge]}({self.name}) AS {self.name}")


def count(name: str, kind: int, condition: str | None = None, *, snapshot: bool = False) -> Measure:
    """Return the number of facts of a kind, or of those that meet a condition."""
    signed = "CAST(sign AS BIGINT)"
    return Measure(name, (kind,), signed if condition is None else _where(condition, signed), "sum", snapshot)


def value(name: str, kind: int, column: str) -> Measure:
    """Return the measure of a single value. A key has one such row, so the sum is the value, and an old image takes it back."""
    return Measure(name, (kind,), f"CAST(sign * {column} AS BIGINT)", "sum")


def link(name: str, *kinds: int) -> Measure:
    """Return the measure of a link. Of two kinds of facts it is the difference, 0 where both have the same link."""
    return Measure(name, kinds, "link", "xor")


def _where(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


def _delivered(*outcomes: int) -> str:
    return f"code IN ({', '.join(str(int(outcome)) for outcome in outcomes)})"


_CLAIMED = "link != 0"

LEDGER_MEASURES = (
    count("ledger_rows", Kind.LEDGER),
    count("ledger_complete", Kind.LEDGER, "code > 0"),
    value("ledger_outcome", Kind.LEDGER, "code"),
    value("ledger_consumptions", Kind.LEDGER, "number"),
    value("ledger_resting_since", Kind.LEDGER, "until"),
)


def log_measures(answers: Iterable[int]) -> tuple[Measure, ...]:
    """Return the measures of logs, queues and files. `answers` are the codes of a delivery's first answer."""
    first = _delivered(*answers)
    return (
        Measure("accepted_copies", (Kind.ACCEPTED,), "number", "sum"),
        Measure("accepted_sent", (Kind.ACCEPTED,), "at", "min"),
        count("deliveries", Kind.DELIVERY),
        count("deliveries_done", Kind.DELIVERY, _delivered(*answers, Delivered.DUPLICATE)),
        count("deliveries_duplicate", Kind.DELIVERY, _delivered(Delivered.DUPLICATE)),
        Measure("quarantined_at", (Kind.DELIVERY,), _where(_delivered(Delivered.QUARANTINED), "at"), "max"),
        Measure("delivered_outcome", (Kind.DELIVERY,), _where(first, "CAST(code AS BIGINT)"), "max"),
        Measure("delivery_sent", (Kind.DELIVERY,), "until", "min"),
        Measure("first_done", (Kind.DELIVERY,), _where(first, "at"), "min"),
        Measure("last_finished", (Kind.DELIVERY,), "at", "max"),
        Measure("consumptions_seen", (Kind.DELIVERY,), "number", "max"),
        # The number of different claims, without keeping them. One bit of 64 for each claim never counts too many, and the
        # least and the greatest claim differ as soon as there are two.
        Measure("claims_seen", (Kind.DELIVERY,), _where(_CLAIMED, "shiftleft(1L, CAST(pmod(link, 64) AS INT))"), "or"),
        Measure("claim_low", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "min"),
        Measure("claim_high", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "max"),
        Measure("answer_low", (Kind.DELIVERY,), "extra", "min"),
        Measure("answer_high", (Kind.DELIVERY,), "extra", "max"),
        count("dead_letters", Kind.DEAD_LETTER, snapshot=True),
        count("waiting", Kind.WAITING, snapshot=True),
        # The latest rather than a count, because the same list may be read again every day.
        Measure("dropped_at", (Kind.DROPPED,), "at", "max"),
        count("rejected", Kind.REJECT),
    )


EFFECTS_AT = Measure("effects_at", (Kind.EFFECT,), "at", "max")
"""When the last of a request's effects was committed. A later image of the row has the same time, so none is taken back."""
WITHOUT_ZERO = frozenset(measure.name for measure in (*log_measures([0]), EFFECTS_AT) if not measure.starts_at_zero)
"""The measures whose null does not stand for 0."""

LOG_PACKED = (("deliveries_duplicate", "deliveries_done"), ("dead_letters", "waiting"))


@dataclass(frozen=True)
class Measures:
    """All measures of a consumer, in the order of the columns.

    `packed` names two small sums that are added as one number, the first in its lower 32 bits: a quarter fewer aggregates
    for every fact. Exact for 200 million rows of one key with codes below 10. The second sum of deliveries is the larger
    one, so Spark reports its overflow first.
    """

    all: tuple[Measure, ...]
    packed: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of gathered measures."""
        return (*KEY, *(measure.name for measure in self.all))


def gather(facts: DataFrame, partitions: int, measures: Measures) -> DataFrame:
    """Return the measures of facts: one shuffle by key, one sort, one pass. Each partition is sorted by key."""
    together = narrow(facts).repartition(partitions, "key").withColumn("hash", _hash_of("key"))
    ordered = widen(together.sortWithinPartitions(*KEY))
    packed = {name for pair in measures.packed for name in pair}
    alone = [measure.over_facts() for measure in measures.all if measure.name not in packed]
    value_of = {measure.name: measure.of_fact() for measure in measures.all}
    sums = [
        F.expr(f"sum({value_of[low]} + shiftleft({value_of[high]}, 32)) AS packed_{number}")
        for number, (low, high) in enumerate(measures.packed)
    ]
    gathered = ordered.groupBy(*KEY).agg(*alone, *sums)
    for number, (low, high) in enumerate(measures.packed):
        # A negative lower sum borrowed 1 from the upper one. Half of the lower range restores it.
        gathered = gathered.withColumns(
            {
                low: F.expr(f"shiftright(shiftleft(packed_{number}, 32), 32)"),
                high: F.expr(f"shiftright(packed_{number} + {1 << 31}L, 32)"),
            }
        )
    return gathered.select(*measures.columns)


def _hash_of(key: str) -> Column:
    """Return the key's hash, with all rows that are no request first: columns that only they have are null in one long run."""
    hashed, lowest = F.xxhash64(key), -(1 << 63)
    row = F.startswith(F.col(key), F.lit(ROW_PREFIX))
    return F.when(row, hashed.bitwiseOR(F.lit(lowest))).otherwise(hashed.bitwiseAND(F.lit(~lowest)))


def narrow(facts: DataFrame) -> DataFrame:
    """Return facts in the form that is shuffled. Each column costs eight bytes a row, so three small ones travel as one."""
    small = (F.col("kind") * CODES + F.coalesce("code", F.lit(0))) * F.col("sign")
    return facts.select("key", small.alias("small"), "number", "at", "until", "link", "extra")


def widen(narrowed: DataFrame) -> DataFrame:
    """Invert `narrow`, and keep the hash. Columns that are added up are never null, which saves a null check for each."""
    zero = F.lit(0).cast("bigint")
    small = F.coalesce("small", F.lit(0))
    return narrowed.select(
        *KEY,
        F.call_function("shiftright", F.abs(small), F.lit(8)).alias("kind"),
        F.when(small < 0, F.lit(-1)).otherwise(F.lit(1)).alias("sign"),
        F.abs(small).bitwiseAND(F.lit(CODES - 1)).alias("code"),
        *(F.coalesce(name, zero).alias(name) for name in ("number", "link")),
        *("at", "until", "extra"),
    )


def merge(yesterday: DataFrame, today: DataFrame, partitions: int, measures: Measures) -> DataFrame:
    """Return the measures after a change, from those before it and those of the change.

    Snapshots (the content of the queues) are taken from `today` only.
    """
    snapshots = [measure.name for measure in measures.all if measure.snapshot]
    before = yesterday.withColumns(dict.fromkeys(snapshots, F.expr("0L"))).select(*measures.columns)
    both = before.unionByName(today.select(*measures.columns))
    together = both.repartition(partitions, "key").sortWithinPartitions(*KEY)
    merged = together.groupBy(*KEY).agg(*(measure.over_measures() for measure in measures.all))
    return merged.select(*measures.columns)
