"""Facts → one row of evidence for each key. Every column is a sum, an exclusive or, a minimum, a maximum or a bitwise or.

So the evidence of two sets of facts merges into the evidence of both, and an old image with the sign -1 takes back what
it once added: yesterday's evidence and today's changes give today's evidence, exactly. That is the whole incremental audit.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.vocabulary import SLOT_PREFIX, Delivered, Kind

KEY = ("hash", "key")
"""What evidence is grouped and sorted by. The hash comes first: comparing it nearly always decides, and never text."""


_AGGREGATES = {"sum": "sum", "xor": "bit_xor", "or": "bit_or", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Measure:
    """One column of evidence: which facts it looks at, what of them, and how they are put together.

    `value` is SQL over the columns of a fact. Built of Spark's column objects it would be a dozen calls to Java.
    """

    name: str
    kinds: tuple[Kind, ...]
    value: str
    merge: str
    snapshot: bool = False

    @property
    def starts_at_zero(self) -> bool:
        """Sums and bits of nothing are 0; a minimum or maximum of nothing stays unknown."""
        return self.merge not in ("min", "max")

    def of_fact(self) -> str:
        """What one fact adds, as SQL."""
        mine = f"CASE WHEN kind IN ({', '.join(str(int(kind)) for kind in self.kinds)}) THEN {self.value} END"
        return f"coalesce({mine}, 0L)" if self.starts_at_zero else mine

    def over_facts(self) -> Column:
        """The aggregate over facts."""
        return F.expr(f"{_AGGREGATES[self.merge]}({self.of_fact()}) AS {self.name}")

    def over_evidence(self) -> Column:
        """The aggregate over rows of evidence, of which at most one may hold what was taken as a snapshot."""
        return F.expr(f"{_AGGREGATES[self.merge]}({self.name}) AS {self.name}")


def _count(name: str, kind: Kind, condition: str | None = None, *, snapshot: bool = False) -> Measure:
    signed = "CAST(sign AS BIGINT)"
    return Measure(name, (kind,), signed if condition is None else _where(condition, signed), "sum", snapshot)


def _value(name: str, kind: Kind, column: str) -> Measure:
    """A single value: a key has one such row, so the sum is the value, and an old image takes it back."""
    return Measure(name, (kind,), f"CAST(sign * {column} AS BIGINT)", "sum")


def _link(name: str, *kinds: Kind) -> Measure:
    """What one fact links to; or of two kinds of facts the difference, which is 0 where both link to the same."""
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
    # 0 where the recorded answer, what the request made and what it cancelled all speak of one place or appointment.
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
    # How many different claims there were, without keeping them: one bit of 64 for each never counts too many, and
    # the least and the greatest tell two from one for certain.
    Measure("claims_seen", (Kind.DELIVERY,), _where(_CLAIMED, "shiftleft(1L, CAST(pmod(link, 64) AS INT))"), "or"),
    Measure("claim_low", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "min"),
    Measure("claim_high", (Kind.DELIVERY,), _where(_CLAIMED, "link"), "max"),
    Measure("answer_low", (Kind.DELIVERY,), "extra", "min"),
    Measure("answer_high", (Kind.DELIVERY,), "extra", "max"),
    _count("dead_letters", Kind.DEAD_LETTER, snapshot=True),
    _count("waiting", Kind.WAITING, snapshot=True),
    # The latest and no count: the list may be handed in again every day.
    Measure("dropped_at", (Kind.DROPPED,), "at", "max"),
    _count("rejected", Kind.REJECT),
    Measure("practice", (Kind.APPOINTMENT,), "extra", "xor"),
)
"""All columns of evidence, in order."""

EVIDENCE_COLUMNS = (*KEY, *(measure.name for measure in MEASURES))


PACKED = (
    {"ledger_outcome": 20, "ledger_complete": 20, "ledger_rows": 24},
    {"appointment_channel": 20, "appointment_status": 20, "appointment_rows": 24},
    {"slot_status": 20, "slot_rows": 20, "holdings": 24},
    {"expects_cancelled": 20, "cancellations": 20, "held_slots": 24},
    {"deliveries_duplicate": 20, "deliveries_done": 20, "deliveries": 24},
    {"dead_letters": 32, "waiting": 32},
)
"""Small sums that are added as one number, and each one's bits, lowest first: a third fewer aggregates for every fact.
Exact while no sum outgrows its bits, which takes more than 50,000 rows of one key in one table."""


def gather(facts: DataFrame, partitions: int) -> DataFrame:
    """Facts → evidence. One shuffle by key, one sort, one pass; each partition's rows come out sorted by key."""
    together = narrow(facts).repartition(partitions, "key").withColumn("hash", _place("key"))
    ordered = widen(together.sortWithinPartitions(*KEY))
    packed = {name for widths in PACKED for name in widths}
    alone = [measure.over_facts() for measure in MEASURES if measure.name not in packed]
    sums = [_packed_sum(widths, f"packed_{number}") for number, widths in enumerate(PACKED)]
    gathered = ordered.groupBy(*KEY).agg(*alone, *sums)
    for number, widths in enumerate(PACKED):
        gathered = gathered.withColumns(_unpacked(f"packed_{number}", widths))
    return gathered.select(*EVIDENCE_COLUMNS)


def _place(key: str) -> Column:
    """The key's hash, with slots before everything else: a column that only one of the two has is then null in long runs."""
    hashed, lowest = F.xxhash64(key), -(1 << 63)
    slot = F.startswith(F.col(key), F.lit(SLOT_PREFIX))
    return F.when(slot, hashed.bitwiseOR(F.lit(lowest))).otherwise(hashed.bitwiseAND(F.lit(~lowest)))


def narrow(facts: DataFrame) -> DataFrame:
    """Facts as they are shuffled: every column costs eight bytes a row, so three small ones travel as one."""
    small = (F.col("kind") * 16 + F.coalesce("code", F.lit(0))) * F.col("sign")
    return facts.select("key", small.alias("small"), "number", "at", "until", "link", "extra")


def widen(narrowed: DataFrame) -> DataFrame:
    """The inverse of `narrow`; the hash stays. None of what is added up can be null, which spares a question each time."""
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


def _packed_sum(widths: dict[str, int], name: str) -> Column:
    value = {measure.name: measure.of_fact() for measure in MEASURES if measure.name in widths}
    parts, lowest = [], 0
    for part, width in widths.items():
        parts.append(f"shiftleft({value[part]}, {lowest})")
        lowest += width
    return F.expr(f"sum({' + '.join(parts)}) AS {name}")


def _unpacked(packed: str, widths: dict[str, int]) -> dict[str, Column]:
    """Each part of a packed sum, with its sign."""
    found, lowest = {}, 0
    for name, width in widths.items():
        # A negative part below has borrowed one from this part: half of all that is below gives it back.
        whole = f"{packed} + {1 << (lowest - 1)}L" if lowest else packed
        found[name] = F.expr(f"shiftright(shiftleft({whole}, {64 - lowest - width}), {64 - width})")
        lowest += width
    return found


def merge(yesterday: DataFrame, today: DataFrame, partitions: int) -> DataFrame:
    """Evidence before a change and evidence of the change → evidence after it.

    What was a snapshot (the queues' content) is taken from `today` alone.
    """
    snapshots = [measure.name for measure in MEASURES if measure.snapshot]
    before = yesterday.withColumns(dict.fromkeys(snapshots, F.expr("0L"))).select(*EVIDENCE_COLUMNS)
    both = before.unionByName(today.select(*EVIDENCE_COLUMNS))
    together = both.repartition(partitions, "key").sortWithinPartitions(*KEY)
    merged = together.groupBy(*KEY).agg(*(measure.over_evidence() for measure in MEASURES))
    return merged.select(*EVIDENCE_COLUMNS)
