"""Tables for the people who run the service: demand, latency, appointments, utilisation.

Columns are named as in the NHS publication "Appointments in General Practice" where it has them. Every figure of a `Table`
is a weighted sum, so a day's changes are added (weight 1) and the rows that they replace subtracted (weight -1). Rates and
percentiles do not add up, and are computed from the tables as a `Summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import packed, unpacked
from oneslot.pipeline.vocabulary import AppointmentStatus, Channel, Outcome, SlotStatus, Subject, Verdict

QUARTER_OF_AN_HOUR_MS = 900_000
DAY_MS = 86_400_000
BOOKED_AHEAD = {"2 to 7 Days": 7, "8 to 14 Days": 14, "15 to 21 Days": 21, "22 to 28 Days": 28}
"""The publication's words for the days between booking and appointment, with the last day of each."""
WEIGHT = "weight"
NUMBERS = ("QUARTER_HOUR", "GP_CODE", "LATENCY_MS")
"""The dimensions that are numbers while rows are counted. A practice's code becomes text afterwards."""
COMMON = {
    "table": "int",
    **{f"text_{place}": "string" for place in range(4)},
    **{f"number_{place}": "bigint" for place in range(2)},
    **{f"figure_{place}": "bigint" for place in range(16)},
}
"""The shape in which the rows of all tables are summed up together."""


@dataclass(frozen=True)
class Table:
    """An operations table: its dimensions, its summed figures, and the dimension that partitions it.

    `select` returns which judged rows count, and a column for each dimension and figure.
    """

    name: str
    dimensions: tuple[str, ...]
    figures: tuple[str, ...]
    partition: str | None
    select: Callable[[], tuple[Column, dict[str, Column]]]

    @property
    def places(self) -> dict[str, str]:
        """The columns of `COMMON` with the table's dimensions and figures."""
        texts = [name for name in self.dimensions if name not in NUMBERS]
        numbers = [name for name in self.dimensions if name in NUMBERS]
        groups = {"text": texts, "number": numbers, "figure": self.figures}
        return {name: f"{group}_{place}" for group, names in groups.items() for place, name in enumerate(names)}


def sent() -> Column:
    """Return when a request was sent, epoch ms: SQS's time of the first copy, else the producer's."""
    return F.coalesce(F.col("delivery_sent"), F.col("accepted_sent"))


def date_of(milliseconds: Column) -> Column:
    """Return the UTC date of a time (epoch ms) as text."""
    return F.date_format(F.timestamp_millis(milliseconds), "yyyy-MM-dd")


def _demand() -> tuple[Column, dict[str, Column]]:
    requests = F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED) & sent().isNotNull()
    by_verdict = {verdict.value: F.when(F.col("verdict") == verdict, 1).otherwise(0) for verdict in Verdict}
    return requests, {
        "DATE": date_of(sent()),
        "QUARTER_HOUR": F.floor(sent() / QUARTER_OF_AN_HOUR_MS) * QUARTER_OF_AN_HOUR_MS,
        "GP_CODE": F.col("practice"),
        "COUNT_OF_REQUESTS": F.lit(1),
        "COUNT_OF_DELIVERIES": F.col("deliveries"),
        "COUNT_OF_DUPLICATES": F.col("deliveries_duplicate"),
        "COUNT_OF_TAKEOVERS": F.greatest(F.col("ledger_consumptions") - 1, F.lit(0)),
        # The decision at the time. WAITLIST counts those that wait today.
        "COUNT_OF_DID_NOT_FIT": F.when(F.col("ledger_outcome") == int(Outcome.WAITLIST), 1).otherwise(0),
        **{name.upper(): column for name, column in by_verdict.items()},
    }


def _latency() -> tuple[Column, dict[str, Column]]:
    waited = F.greatest(F.col("first_done") - sent(), F.lit(0))
    # Three significant digits: at most 1 % of error, and a few thousand rows for a history of any length.
    step = F.greatest(F.pow(F.lit(10.0), F.floor(F.log10(F.greatest(waited, F.lit(1)))) - 2), F.lit(1.0))
    answered = (F.col("subject") == Subject.REQUEST) & F.col("first_done").isNotNull() & sent().isNotNull()
    return answered, {
        "DATE": date_of(sent()),
        "LATENCY_MS": F.floor(waited / step) * step,
        "COUNT_OF_REQUESTS": F.lit(1),
    }


def _appointments() -> tuple[Column, dict[str, Column]]:
    status = F.col("appointment_status")
    days = F.floor(F.col("appointment_start") / DAY_MS) - F.floor(F.col("appointment_created") / DAY_MS)
    made = (F.col("appointment_rows") > 0) & status.isin(
        int(AppointmentStatus.BOOKED), int(AppointmentStatus.WAITLIST), int(AppointmentStatus.CANCELLED)
    )
    held = F.col("appointment_start") > 0
    return made, {
        "APPOINTMENT_DATE": F.when(held, date_of(F.col("appointment_start"))).otherwise(""),
        "GP_CODE": F.col("practice"),
        "APPT_STATUS": words(status, {state.name.capitalize(): state for state in list(AppointmentStatus)[:3]}),
        "APPT_MODE": words(
            F.col("appointment_channel"),
            {"Face-to-Face": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO},
            "Unknown",
        ),
        "TIME_BETWEEN_BOOK_AND_APPT": booked_ahead(days, held),
        "COUNT_OF_APPOINTMENTS": F.lit(1),
    }


def booked_ahead(days: Column, held: Column) -> Column:
    """Return the publication's words for a number of whole days; empty where no slot was held."""
    chosen = F.when(~held, "").when(days <= 0, "Same Day").when(days == 1, "1 Day")
    for word, last in BOOKED_AHEAD.items():
        chosen = chosen.when(days <= last, word)
    return chosen.otherwise("More than 28 Days")


def _utilisation() -> tuple[Column, dict[str, Column]]:
    return (F.col("subject") == Subject.SLOT) & (F.col("slot_rows") > 0), {
        "SLOT_DATE": F.col("slot_date").cast("string"),
        "GP_CODE": packed(F.split_part(F.col("key"), F.lit("#"), F.lit(2))),
        "COUNT_OF_SLOTS": F.lit(1),
        "COUNT_OF_BUSY_SLOTS": F.when(F.col("slot_status") == int(SlotStatus.BUSY), 1).otherwise(0),
    }


def _totals() -> tuple[Column, dict[str, Column]]:
    return F.col("subject") != Subject.GONE, {
        "subject": F.col("subject"),
        "verdict": F.coalesce("verdict", F.lit("")),
        "violations": F.col("violations"),
        "subjects": F.lit(1),
        **{f"sum_{name}": F.col(name) for name in SUMMED},
    }


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


def tabulate(
    tables: Sequence[Table], rows: DataFrame, yesterday: Mapping[str, DataFrame] | None = None
) -> dict[str, DataFrame]:
    """Return tables from judged rows with a `weight`, added to yesterday's tables where there are any.

    One pass over the rows feeds all tables, and is kept until Spark's cache is cleared.
    """
    earlier = yesterday or {}
    counted = []
    for number, table in enumerate(tables):
        counts, columns = table.select()
        weighed = {name: columns[name] * F.col(WEIGHT) for name in table.figures}
        counted.append(F.when(counts, _common(number, table, columns | weighed)))
    together = rows.select(F.explode(F.array(*counted)).alias("row")).where(F.col("row").isNotNull())
    for number, table in enumerate(tables):
        if table.name in earlier:
            columns = {name: F.col(name) for name in (*table.dimensions, *table.figures)}
            if "GP_CODE" in columns:
                columns["GP_CODE"] = packed(columns["GP_CODE"])
            together = together.unionAll(earlier[table.name].select(_common(number, table, columns).alias("row")))
    figures = [name for name in COMMON if name.startswith("figure")]
    summed = (
        together.select("row.*")
        .groupBy(*(name for name in COMMON if name not in figures))
        .agg(*(F.sum(name).alias(name) for name in figures))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    return {table.name: _of_table(summed, number, table) for number, table in enumerate(tables)}


def _common(number: int, table: Table, columns: Mapping[str, Column]) -> Column:
    """Return a row of a table in the common shape. What the table does not have is the same in all of its rows."""
    nothing = {"string": "", "bigint": 0}
    found = {place: columns[name] for name, place in table.places.items()} | {"table": F.lit(number)}
    return F.struct(
        *(
            (F.coalesce(found[name].cast(kind), F.lit(0)) if kind == "bigint" else found[name].cast(kind)).alias(name)
            if name in found
            else F.lit(nothing[kind]).cast(kind).alias(name)
            for name, kind in COMMON.items()
        )
    )


def _of_table(summed: DataFrame, number: int, table: Table) -> DataFrame:
    """Return one table from the sums of all, sorted. Rows of zeros are left out, so that it equals that of a full audit."""
    left = F.lit(False)
    for name in table.figures:
        left = left | (F.col(table.places[name]) != 0)
    columns = {name: F.col(table.places[name]) for name in (*table.dimensions, *table.figures)}
    if "GP_CODE" in columns:  # as text only now, because there are far fewer rows
        columns["GP_CODE"] = unpacked(columns["GP_CODE"])
    mine = summed.where((F.col("table") == number) & left)
    return mine.select(*(column.alias(name) for name, column in columns.items())).orderBy(*table.dimensions)


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
    latencies = [f"LATENCY_{name}_MS" for name in PERCENTILES]
    columns = (*COUNTED, "DUPLICATE_RATE", *latencies)
    both = rated.unionByName(percentiles(tables["latency"]), allowMissingColumns=True)
    return both.groupBy("DATE").agg(*(F.max(name).alias(name) for name in columns)).orderBy("DATE")


def practices(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return for each practice the demand beside its slots."""
    asked = tables["demand"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in COUNTED))
    slots = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")
    offered = tables["utilisation"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in slots))
    both = asked.where(F.col("GP_CODE") != "").unionByName(offered, allowMissingColumns=True)
    joined = both.groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in (*COUNTED, *slots))).fillna(0)
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
