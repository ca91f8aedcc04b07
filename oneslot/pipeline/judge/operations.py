"""Tables for the people who run the service: demand, latency, appointments, utilisation.

Columns are named as in the NHS publication "Appointments in General Practice" where it has them. Every figure of a `Table`
is a weighted sum, so a day's changes are added (weight 1) and the rows that they replace subtracted (weight -1). Rates and
percentiles do not add up, and are computed from the tables as a `Summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import packed, unpacked
from oneslot.pipeline.vocabulary import AppointmentStatus, Channel, Outcome, SlotStatus, Subject, Verdict

QUARTER_OF_AN_HOUR_MS = 900_000
DAY_MS = 86_400_000
BOOKED_AHEAD = {"2 to 7 Days": 7, "8 to 14 Days": 14, "15 to 21 Days": 21, "22 to 28 Days": 28}
"""The publication's words for the days between booking and appointment, with the last day of each."""
WEIGHT = "weight"


@dataclass(frozen=True)
class Table:
    """An operations table: its dimensions, its summed figures, the dimension that partitions it, and its transform."""

    name: str
    dimensions: tuple[str, ...]
    figures: tuple[str, ...]
    partition: str | None
    make: Callable[[DataFrame], DataFrame]


def sent() -> Column:
    """Return when a request was sent, epoch ms: SQS's time of the first copy, else the producer's."""
    return F.coalesce(F.col("delivery_sent"), F.col("accepted_sent"))


def date_of(milliseconds: Column) -> Column:
    """Return the UTC date of a time (epoch ms) as text."""
    return F.date_format(F.timestamp_millis(milliseconds), "yyyy-MM-dd")


def _demand(rows: DataFrame) -> DataFrame:
    requests = rows.where(F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED) & sent().isNotNull())
    by_verdict = {verdict.value: F.when(F.col("verdict") == verdict, 1).otherwise(0) for verdict in Verdict}
    return requests.select(
        date_of(sent()).alias("DATE"),
        (F.floor(sent() / QUARTER_OF_AN_HOUR_MS) * QUARTER_OF_AN_HOUR_MS).alias("QUARTER_HOUR"),
        F.col("practice").alias("GP_CODE"),
        F.lit(1).alias("COUNT_OF_REQUESTS"),
        F.col("deliveries").alias("COUNT_OF_DELIVERIES"),
        F.col("deliveries_duplicate").alias("COUNT_OF_DUPLICATES"),
        F.greatest(F.col("ledger_consumptions") - 1, F.lit(0)).alias("COUNT_OF_TAKEOVERS"),
        # The decision at the time. WAITLIST counts those that wait today.
        F.when(F.col("ledger_outcome") == int(Outcome.WAITLIST), 1).otherwise(0).alias("COUNT_OF_DID_NOT_FIT"),
        *(column.alias(name.upper()) for name, column in by_verdict.items()),
        WEIGHT,
    )


def _latency(rows: DataFrame) -> DataFrame:
    waited = F.greatest(F.col("first_done") - sent(), F.lit(0))
    # Three significant digits: at most 1 % of error, and a few thousand rows for a history of any length.
    step = F.greatest(F.pow(F.lit(10.0), F.floor(F.log10(F.greatest(waited, F.lit(1)))) - 2), F.lit(1.0))
    answered = (F.col("subject") == Subject.REQUEST) & F.col("first_done").isNotNull() & sent().isNotNull()
    return rows.where(answered).select(
        date_of(sent()).alias("DATE"),
        (F.floor(waited / step) * step).cast("bigint").alias("LATENCY_MS"),
        F.lit(1).alias("COUNT_OF_REQUESTS"),
        WEIGHT,
    )


def _appointments(rows: DataFrame) -> DataFrame:
    status = F.col("appointment_status")
    days = F.floor(F.col("appointment_start") / DAY_MS) - F.floor(F.col("appointment_created") / DAY_MS)
    made = (F.col("appointment_rows") > 0) & status.isin(
        int(AppointmentStatus.BOOKED), int(AppointmentStatus.WAITLIST), int(AppointmentStatus.CANCELLED)
    )
    held = F.col("appointment_start") > 0
    return rows.where(made).select(
        F.when(held, date_of(F.col("appointment_start"))).otherwise("").alias("APPOINTMENT_DATE"),
        F.col("practice").alias("GP_CODE"),
        words(status, {state.name.capitalize(): state for state in list(AppointmentStatus)[:3]}).alias("APPT_STATUS"),
        words(
            F.col("appointment_channel"),
            {"Face-to-Face": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO},
            "Unknown",
        ).alias("APPT_MODE"),
        booked_ahead(days, held).alias("TIME_BETWEEN_BOOK_AND_APPT"),
        F.lit(1).alias("COUNT_OF_APPOINTMENTS"),
        WEIGHT,
    )


def booked_ahead(days: Column, held: Column) -> Column:
    """Return the publication's words for a number of whole days; empty where no slot was held."""
    chosen = F.when(~held, "").when(days <= 0, "Same Day").when(days == 1, "1 Day")
    for word, last in BOOKED_AHEAD.items():
        chosen = chosen.when(days <= last, word)
    return chosen.otherwise("More than 28 Days")


def _utilisation(rows: DataFrame) -> DataFrame:
    return rows.where((F.col("subject") == Subject.SLOT) & (F.col("slot_rows") > 0)).select(
        F.col("slot_date").cast("string").alias("SLOT_DATE"),
        packed(F.split_part(F.col("key"), F.lit("#"), F.lit(2))).alias("GP_CODE"),
        F.lit(1).alias("COUNT_OF_SLOTS"),
        F.when(F.col("slot_status") == int(SlotStatus.BUSY), 1).otherwise(0).alias("COUNT_OF_BUSY_SLOTS"),
        WEIGHT,
    )


def _totals(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("subject") != Subject.GONE).select(
        "subject",
        F.coalesce("verdict", F.lit("")).alias("verdict"),
        "violations",
        F.lit(1).alias("subjects"),
        *(F.col(name).alias(f"sum_{name}") for name in SUMMED),
        WEIGHT,
    )


SUMMED = (
    "ledger_rows",
    "appointment_rows",
    "slot_rows",
    "accepted_copies",
    "deliveries",
    "deliveries_duplicate",
    "ledger_consumptions",
    "ledger_complete",
    "dead_letters",
    "waiting",
    "rejected",
)

DEMAND = Table(
    "demand",
    ("DATE", "QUARTER_HOUR", "GP_CODE"),
    (
        "COUNT_OF_REQUESTS",
        "COUNT_OF_DELIVERIES",
        "COUNT_OF_DUPLICATES",
        "COUNT_OF_TAKEOVERS",
        "COUNT_OF_DID_NOT_FIT",
        *(verdict.value.upper() for verdict in Verdict),
    ),
    "DATE",
    _demand,
)
LATENCY = Table("latency", ("DATE", "LATENCY_MS"), ("COUNT_OF_REQUESTS",), None, _latency)
APPOINTMENTS = Table(
    "appointments",
    ("APPOINTMENT_DATE", "GP_CODE", "APPT_STATUS", "APPT_MODE", "TIME_BETWEEN_BOOK_AND_APPT"),
    ("COUNT_OF_APPOINTMENTS",),
    None,
    _appointments,
)
UTILISATION = Table(
    "utilisation", ("SLOT_DATE", "GP_CODE"), ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS"), None, _utilisation
)
TOTALS = Table(
    "totals",
    ("subject", "verdict", "violations"),
    ("subjects", *(f"sum_{name}" for name in SUMMED)),
    None,
    _totals,
)
TABLES = (TOTALS, DEMAND, LATENCY, APPOINTMENTS, UTILISATION)


def tabulate(table: Table, rows: DataFrame, yesterday: DataFrame | None = None) -> DataFrame:
    """Return a table's figures from judged rows with a `weight`, added to yesterday's table if there is one."""
    weighted = table.make(rows)
    counted = weighted.groupBy(*table.dimensions).agg(
        *(F.sum(F.col(name) * F.col(WEIGHT)).cast("bigint").alias(name) for name in table.figures)
    )
    if "GP_CODE" in table.dimensions:  # as text only now, because there are far fewer rows
        counted = counted.withColumn("GP_CODE", unpacked(F.col("GP_CODE")))
    if yesterday is not None:
        both = counted.unionByName(yesterday.select(*table.dimensions, *table.figures))
        counted = both.groupBy(*table.dimensions).agg(*(F.sum(name).alias(name) for name in table.figures))
    # Rows of zeros are removed, so that the table equals that of a full audit.
    left = F.lit(False)
    for name in table.figures:
        left = left | (F.col(name) != 0)
    return counted.where(left).select(*table.dimensions, *table.figures).orderBy(*table.dimensions)


@dataclass(frozen=True)
class Summary:
    """A small table of rates and percentiles, computed from operations tables."""

    name: str
    sources: tuple[str, ...]
    make: Callable[[Mapping[str, DataFrame]], DataFrame]


PERCENTILES = {"P50": 0.5, "P90": 0.9, "P95": 0.95, "P99": 0.99, "P999": 0.999}
COUNTED = (
    "COUNT_OF_REQUESTS",
    "COUNT_OF_DELIVERIES",
    "COUNT_OF_DUPLICATES",
    "COUNT_OF_TAKEOVERS",
    "COUNT_OF_DID_NOT_FIT",
    "BOOKED",
    "WAITLIST",
)


def percentiles(latency: DataFrame) -> DataFrame:
    """Return for each DATE of the table `latency` the times, in ms, within which 50 % to 99.9 % were answered."""
    ordered = Window.partitionBy("DATE").orderBy("LATENCY_MS")
    seen = F.sum("COUNT_OF_REQUESTS").over(ordered) / F.sum("COUNT_OF_REQUESTS").over(Window.partitionBy("DATE"))
    within = latency.withColumn("seen", seen)
    # 0.999 is not exact in binary. The tolerance keeps a rounding error from costing a step.
    reached = {
        name: F.min(F.when(F.col("seen") >= share - 1e-12, F.col("LATENCY_MS"))) for name, share in PERCENTILES.items()
    }
    return within.groupBy("DATE").agg(*(time.alias(f"LATENCY_{name}_MS") for name, time in reached.items()))


def days(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return for each day of sending the counts of requests and deliveries, the duplicate rate and the latencies."""
    demand = tables["demand"].withColumn("DATE", F.col("DATE").cast("string"))  # a partition is read as a date
    totals = demand.groupBy("DATE").agg(*(F.sum(name).alias(name) for name in COUNTED))
    rated = totals.withColumn("DUPLICATE_RATE", share("COUNT_OF_DUPLICATES", "COUNT_OF_DELIVERIES"))
    joined = rated.join(percentiles(tables["latency"]), on="DATE", how="left")
    latencies = [f"LATENCY_{name}_MS" for name in PERCENTILES]
    return joined.select("DATE", *COUNTED, "DUPLICATE_RATE", *latencies).orderBy("DATE")


def practices(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return for each practice the demand beside its slots."""
    asked = tables["demand"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in COUNTED))
    slots = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")
    offered = tables["utilisation"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in slots))
    joined = asked.where(F.col("GP_CODE") != "").join(offered, on="GP_CODE", how="full").fillna(0)
    rates = {
        "DUPLICATE_RATE": share("COUNT_OF_DUPLICATES", "COUNT_OF_DELIVERIES"),
        "UTILISATION": share("COUNT_OF_BUSY_SLOTS", "COUNT_OF_SLOTS"),
    }
    return joined.withColumns(rates).select("GP_CODE", *COUNTED, *slots, *rates).orderBy("GP_CODE")


def share(part: str, whole: str) -> Column:
    """Return the quotient of two counts; null where the divisor is 0."""
    return F.when(F.col(whole) > 0, F.col(part) / F.col(whole))


SUMMARIES = (Summary("days", ("demand", "latency"), days), Summary("practices", ("demand", "utilisation"), practices))


def words(code: Column, names: Mapping[str, int], otherwise: str = "") -> Column:
    """Return the word for a code."""
    chosen = F.when(F.lit(False), F.lit(""))
    for word, value in names.items():
        chosen = chosen.when(code == int(value), F.lit(word))
    return chosen.otherwise(otherwise)
