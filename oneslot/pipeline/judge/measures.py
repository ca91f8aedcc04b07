"""Facts, summed up to one row of measures for each key.

Every measure is a sum, an exclusive or, a minimum, a maximum or a bitwise or. So the measures of two sets of facts merge
into the measures of both, and an old image with the sign -1 takes back what it added. Yesterday's measures and today's
changes therefore give today's measures exactly: that is the whole incremental audit.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.vocabulary import SLOT_PREFIX, Delivered, Kind

KEY = ("hash", "key")
"""The columns that rows are grouped and sorted by. The hash comes first, because comparing it rarely needs the text."""


_AGGREGATES = {"sum": "sum", "xor": "bit_xor", "or": "bit_or", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Measure:
    """One measure: the kinds of facts that it reads, its value for a fact, and how values are merged.

    `value` is SQL over the columns of a fact. As column objects it would cost a dozen calls to Java.
    """

    name: str
    kinds: tuple[Kind, ...]
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


def _count(name: str, kind: Kind, condition: str | None = None, *, snapshot: bool = False) -> Measure:
    signed = "CAST(sign AS BIGINT)"
    return Measure(name, (kind,), signed if condition is None else _where(condition, signed), "sum", snapshot)


def _value(name: str, kind: Kind, column: str) -> Measure:
    """Return the measure of a single value. A key has one such row, so the sum is the value, and an old image takes it back."""
    return Measure(name, (kind,), f"CAST(sign * {column} AS BIGINT)", "sum")


def _link(name: str, *kinds: Kind) -> Measure:
    """Return the measure of a link. Of two kinds of facts it is the difference, 0 where both have the same link."""
    return Measure(name, kinds, "link", "xor")


def _where(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


def _delivered(*outcomes: Delivered) -> str:
    return f"code IN ({', '.join(str(int(outcome)) for outcome in outcomes)})"


_FRESH = (Delivered.BOOKED, Delivered.WAITLIST, Delivered.CANCELLED, Delivered.REFUSED)
_CLAIMED = "link != 0"

MEASURES = (
    _count("ledger_rows", Kind.LEDGER),
    _count("ledger_complete", Kind.LEDGER, "code > 0"),
    _value("ledger_outcome", Kind.LEDGER, "code"),
    _value("ledger_consumptions", Kind.LEDGER, "number"),
    _value("ledger_resting_since", Kind.LEDGER, "until"),
    _link("ledger_names", Kind.LEDGER),
    _count("expects_cancelled", Kind.EXPECTS_CANCELLED),
    _count("appointment_rows", Kind.APPOINTMENT),
    _value("appointment_status", Kind.APPOINTMENT, "code"),
    _value("appointment_channel", Kind.APPOINTMENT, "number"),
    _value("appointment_created", Kind.APPOINTMENT, "at"),
    _value("appointment_start", Kind.APPOINTMENT, "until"),
    # 0 where the recorded answer, the appointment made and the appointment cancelled agree on one place or appointment.
    _link("answer_differs", Kind.LEDGER, Kind.APPOINTMENT, Kind.CANCELLED),
    _count("cancellations", Kind.CANCELLED),
    _value("cancelled_at", Kind.CANCELLED, "at"),
    _count("held_slots", Kind.HELD),
    _link("held_differs", Kind.HELD, Kind.APPOINTMENT),
    _count("slot_rows", Kind.SLOT),
    _value("slot_status", Kind.SLOT, "code"),
    _value("slot_date", Kind.SLOT, "number"),
    _count("holdings", Kind.HOLDING),
    _link("holder_differs", Kind.SLOT, Kind.HOLDING),
    Measure("accepted_copies", (Kind.ACCEPTED,), "number", "sum"),
    Measure("accepted_sent", (Kind.ACCEPTED,), "at", "min"),
    _count("deliveries", Kind.DELIVERY),
    _count("deliveries_done", Kind.DELIVERY, _delivered(*_FRESH, Delivered.DUPLICATE)),
    _count("deliveries_duplicate", Kind.DELIVERY, _delivered(Delivered.DUPLICATE)),
    Measure("quarantined_at", (Kind.DELIVERY,), _where(_delivered(Delivered.QUARANTINED), "at"), "max"),
    Measure("delivered_outcome", (Kind.DELIVERY,), _where(_delivered(*_FRESH), "CAST(code AS BIGINT)"), "max"),
    Measure("delivery_sent", (Kind.DELIVERY,), "until", "min"),
    Measure("first_done", (Kind.DELIVERY,), _where(_delivered(*_FRESH), "at"), "min"),
    Measure("last_finished", (Kind.DELIVERY,), "at", "max"),
    Measure("consumptions_seen", (Kind.DELIVERY,), "number", "max"),
    # The number of different claims, without keeping them. One bit of 64 for each claim never counts too many, and the
    # least and the greatest claim differ as soon as there are two.
    Measure("claims_seen", (Kind.DELIVERY,), _where(_CLAIMED, "shiftleft(1L, CAST(pmod(link, 64) AS INT))"), "or"),
    Measure("claim_low", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "min"),
    Measure("claim_high", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "max"),
    Measure("answer_low", (Kind.DELIVERY,), "extra", "min"),
    Measure("answer_high", (Kind.DELIVERY,), "extra", "max"),
    _count("dead_letters", Kind.DEAD_LETTER, snapshot=True),
    _count("waiting", Kind.WAITING, snapshot=True),
    # The latest rather than a count, because the same list may be read again every day.
    Measure("dropped_at", (Kind.DROPPED,), "at", "max"),
    _count("rejected", Kind.REJECT),
    Measure("practice", (Kind.APPOINTMENT,), "extra", "xor"),
)
"""All measures, in the order of the columns."""

MEASURE_COLUMNS = (*KEY, *(measure.name for measure in MEASURES))


PACKED = (
    ("ledger_outcome", "ledger_rows"),
    ("ledger_complete", "cancellations"),
    ("appointment_status", "appointment_rows"),
    ("appointment_channel", "expects_cancelled"),
    ("slot_status", "slot_rows"),
    ("held_slots", "holdings"),
    ("deliveries_duplicate", "deliveries_done"),
    ("dead_letters", "waiting"),
)
"""Two small sums that are added as one number, the first in its lower 32 bits: a quarter fewer aggregates for every fact.
Exact for 200 million rows of one key. The second sum of deliveries is the larger one, so Spark reports its overflow first."""


def gather(facts: DataFrame, partitions: int) -> DataFrame:
    """Return the measures of facts: one shuffle by key, one sort, one pass. Each partition is sorted by key."""
    together = narrow(facts).repartition(partitions, "key").withColumn("hash", _hash_of("key"))
    ordered = widen(together.sortWithinPartitions(*KEY))
    packed = {name for pair in PACKED for name in pair}
    alone = [measure.over_facts() for measure in MEASURES if measure.name not in packed]
    sums = [_packed_sum(low, high, f"packed_{number}") for number, (low, high) in enumerate(PACKED)]
    gathered = ordered.groupBy(*KEY).agg(*alone, *sums)
    for number, (low, high) in enumerate(PACKED):
        # A negative lower sum borrowed 1 from the upper one. Half of the lower range restores it.
        gathered = gathered.withColumns(
            {
                low: F.expr(f"shiftright(shiftleft(packed_{number}, 32), 32)"),
                high: F.expr(f"shiftright(packed_{number} + {1 << 31}L, 32)"),
            }
        )
    return gathered.select(*MEASURE_COLUMNS)


def _hash_of(key: str) -> Column:
    """Return the key's hash, with all slots first. Columns that only slots have are then null in one long run."""
    hashed, lowest = F.xxhash64(key), -(1 << 63)
    slot = F.startswith(F.col(key), F.lit(SLOT_PREFIX))
    return F.when(slot, hashed.bitwiseOR(F.lit(lowest))).otherwise(hashed.bitwiseAND(F.lit(~lowest)))


def narrow(facts: DataFrame) -> DataFrame:
    """Return facts in the form that is shuffled. Each column costs eight bytes a row, so three small ones travel as one."""
    small = (F.col("kind") * 16 + F.coalesce("code", F.lit(0))) * F.col("sign")
    return facts.select("key", small.alias("small"), "number", "at", "until", "link", "extra")


def widen(narrowed: DataFrame) -> DataFrame:
    """Invert `narrow`, and keep the hash. Columns that are added up are never null, which saves a null check for each."""
    zero = F.lit(0).cast("bigint")
    small = F.coalesce("small", F.lit(0))
    return narrowed.select(
        *KEY,
        F.call_function("shiftright", F.abs(small), F.lit(4)).alias("kind"),
        F.when(small < 0, F.lit(-1)).otherwise(F.lit(1)).alias("sign"),
        F.abs(small).bitwiseAND(F.lit(15)).alias("code"),
        *(F.coalesce(name, zero).alias(name) for name in ("number", "link")),
        *("at", "until", "extra"),
    )


def _packed_sum(low: str, high: str, name: str) -> Column:
    value = {measure.name: measure.of_fact() for measure in MEASURES}
    return F.expr(f"sum({value[low]} + shiftleft({value[high]}, 32)) AS {name}")


def merge(yesterday: DataFrame, today: DataFrame, partitions: int) -> DataFrame:
    """Return the measures after a change, from those before it and those of the change.

    Snapshots (the content of the queues) are taken from `today` only.
    """
    snapshots = [measure.name for measure in MEASURES if measure.snapshot]
    before = yesterday.withColumns(dict.fromkeys(snapshots, F.expr("0L"))).select(*MEASURE_COLUMNS)
    both = before.unionByName(today.select(*MEASURE_COLUMNS))
    together = both.repartition(partitions, "key").sortWithinPartitions(*KEY)
    merged = together.groupBy(*KEY).agg(*(measure.over_measures() for measure in MEASURES))
    return merged.select(*MEASURE_COLUMNS)
