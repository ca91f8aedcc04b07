"""Tables for the people who run the service: totals, demand, latency, days. A consumer's `Model` may add its own.

Every figure of a `Table` is a weighted sum, so a day's changes are added (weight 1) and the rows that they replace subtracted
(weight -1). Rates and percentiles do not add up, and are computed from the tables as a `Summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import packed, unpacked
from oneslot.pipeline.vocabulary import Subject, Verdict

QUARTER_OF_AN_HOUR_MS = 900_000
DAY_MS = 86_400_000
WEIGHT = "weight"
NUMBERS = ("QUARTER_HOUR", "LATENCY_MS")
"""The dimensions that are numbers."""


@dataclass(frozen=True)
class Table:
    """An operations table: its dimensions, its summed figures, and the dimension that partitions it.

    `select` returns which judged rows count, and a column for each dimension and figure. `codes` are dimensions that are
    numbers while rows are counted, as `columns.packed` makes them, and become text afterwards.
    """

    name: str
    dimensions: tuple[str, ...]
    figures: tuple[str, ...]
    partition: str | None
    select: Callable[[], tuple[Column, dict[str, Column]]]
    codes: tuple[str, ...] = ()

    @property
    def places(self) -> dict[str, str]:
        """The columns of the common shape with the table's dimensions and figures."""
        numbers = [name for name in self.dimensions if name in (*NUMBERS, *self.codes)]
        texts = [name for name in self.dimensions if name not in numbers]
        groups = {"text": texts, "number": numbers, "figure": self.figures}
        return {name: f"{group}_{place}" for group, names in groups.items() for place, name in enumerate(names)}


def sent() -> Column:
    """Return when a request was sent, epoch ms: SQS's time of the first copy, else the producer's."""
    return F.coalesce(F.col("delivery_sent"), F.col("accepted_sent"))


def date_of(milliseconds: Column) -> Column:
    """Return the UTC date of a time (epoch ms) as text."""
    return F.date_format(F.timestamp_millis(milliseconds), "yyyy-MM-dd")


def demand_columns() -> tuple[Column, dict[str, Column]]:
    """Return which judged rows are requests with a time of sending, and what the table `demand` has of each consumer's."""
    requests = F.col("subject").isin(Subject.REQUEST, Subject.UNIDENTIFIED) & sent().isNotNull()
    by_verdict = {verdict.value.upper(): when_verdict(verdict) for verdict in Verdict}
    return requests, {
        "DATE": date_of(sent()),
        "QUARTER_HOUR": F.floor(sent() / QUARTER_OF_AN_HOUR_MS) * QUARTER_OF_AN_HOUR_MS,
        "COUNT_OF_REQUESTS": F.lit(1),
        "COUNT_OF_DELIVERIES": F.col("deliveries"),
        "COUNT_OF_DUPLICATES": F.col("deliveries_duplicate"),
        "COUNT_OF_TAKEOVERS": F.greatest(F.col("ledger_consumptions") - 1, F.lit(0)),
        "ANSWERED": F.when(F.col("verdict").isin(*Verdict), 0).otherwise(1),
        **by_verdict,
    }


def when_verdict(verdict: str) -> Column:
    """Return 1 where a row has this verdict, else 0."""
    return F.when(F.col("verdict") == verdict, 1).otherwise(0)


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


DEMAND_COUNTS = ("COUNT_OF_REQUESTS", "COUNT_OF_DELIVERIES", "COUNT_OF_DUPLICATES", "COUNT_OF_TAKEOVERS")
DEMAND = Table(
    "demand",
    ("DATE", "QUARTER_HOUR"),
    (*DEMAND_COUNTS, "ANSWERED", *(verdict.value.upper() for verdict in Verdict)),
    "DATE",
    demand_columns,
)
LATENCY = Table("latency", ("DATE", "LATENCY_MS"), ("COUNT_OF_REQUESTS",), None, _latency)
SUMMED_LOGS = (
    "accepted_copies",
    "deliveries",
    "deliveries_duplicate",
    "ledger_consumptions",
    "ledger_complete",
    "dead_letters",
    "waiting",
    "rejected",
)


def totals(row_counts: Sequence[str]) -> Table:
    """Return the table of totals, from which the conclusion follows. `row_counts` count the rows of each export."""
    summed = (*row_counts, *SUMMED_LOGS)

    def select() -> tuple[Column, dict[str, Column]]:
        return F.col("subject") != Subject.GONE, {
            "subject": F.col("subject"),
            "verdict": F.coalesce("verdict", F.lit("")),
            "violations": F.col("violations"),
            "subjects": F.lit(1),
            **{f"sum_{name}": F.col(name) for name in summed},
        }

    figures = ("subjects", *(f"sum_{name}" for name in summed))
    return Table("totals", ("subject", "verdict", "violations"), figures, None, select)


def tabulate(
    tables: Sequence[Table], rows: DataFrame, yesterday: Mapping[str, DataFrame] | None = None
) -> dict[str, DataFrame]:
    """Return tables from judged rows with a `weight`, added to yesterday's tables where there are any.

    One job makes them all, and its result is kept until Spark's cache is cleared. Each table reads the rows anew: one scan with
    a row for each table takes more code than Java compiles, and three times the CPU.
    """
    earlier = yesterday or {}
    shape = common_shape(tables)
    parts = []
    for number, table in enumerate(tables):
        counts, columns = table.select()
        weighed = {name: columns[name] * F.col(WEIGHT) for name in table.figures}
        parts.append(rows.where(counts).select(_common(number, table, columns | weighed, shape)))
        if table.name in earlier:
            columns = {name: F.col(name) for name in (*table.dimensions, *table.figures)}
            columns |= {name: packed(columns[name]) for name in table.codes}
            parts.append(earlier[table.name].select(_common(number, table, columns, shape)))
    together = reduce(DataFrame.unionAll, (part.select("row.*") for part in parts))
    figures = [name for name in shape if name.startswith("figure")]
    summed = (
        together.groupBy(*(name for name in shape if name not in figures))
        .agg(*(F.sum(name).alias(name) for name in figures))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    return {table.name: _of_table(summed, number, table) for number, table in enumerate(tables)}


def common_shape(tables: Sequence[Table]) -> dict[str, str]:
    """Return the columns, with their types, in which the rows of all tables are summed up together."""
    places = {place for table in tables for place in table.places.values()}
    kinds = {"text": "string", "number": "bigint", "figure": "bigint"}
    groups = {kind: sorted((each for each in places if each.startswith(kind)), key=_number_of) for kind in kinds}
    return {"table": "int"} | {place: kinds[kind] for kind, found in groups.items() for place in found}


def _number_of(place: str) -> int:
    return int(place.rpartition("_")[2])


def _common(number: int, table: Table, columns: Mapping[str, Column], shape: Mapping[str, str]) -> Column:
    """Return a row of a table in the common shape. What the table does not have is the same in all of its rows."""
    nothing = {"string": "", "bigint": 0}
    found = {place: columns[name] for name, place in table.places.items()} | {"table": F.lit(number)}
    return F.struct(
        *(
            (F.coalesce(found[name].cast(kind), F.lit(0)) if kind == "bigint" else found[name].cast(kind)).alias(name)
            if name in found
            else F.lit(nothing[kind]).cast(kind).alias(name)
            for name, kind in shape.items()
        )
    ).alias("row")


def _of_table(summed: DataFrame, number: int, table: Table) -> DataFrame:
    """Return one table from the sums of all, sorted. Rows of zeros are left out, so that it equals that of a full audit."""
    left = F.lit(False)
    for name in table.figures:
        left = left | (F.col(table.places[name]) != 0)
    columns = {name: F.col(table.places[name]) for name in (*table.dimensions, *table.figures)}
    columns |= {name: unpacked(columns[name]) for name in table.codes}  # only now, because there are far fewer rows
    mine = summed.where((F.col("table") == number) & left)
    return mine.select(*(column.alias(name) for name, column in columns.items())).orderBy(*table.dimensions)


@dataclass(frozen=True)
class Summary:
    """A small table of rates and percentiles, computed from operations tables. `columns` have Spark's types."""

    name: str
    columns: Mapping[str, str]
    make: Callable[[Mapping[str, DataFrame]], DataFrame]


PERCENTILES = {"P50": 0.5, "P90": 0.9, "P95": 0.95, "P99": 0.99, "P999": 0.999}


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


def days(counted: Sequence[str]) -> Summary:
    """Return the summary by day of sending: these figures of the table `demand`, the duplicate rate and the latencies."""
    latencies = [f"LATENCY_{name}_MS" for name in PERCENTILES]
    columns = (*counted, "DUPLICATE_RATE", *latencies)

    def make(tables: Mapping[str, DataFrame]) -> DataFrame:
        demand = tables["demand"].withColumn("DATE", F.col("DATE").cast("string"))  # a partition is read as a date
        summed = demand.groupBy("DATE").agg(*(F.sum(name).alias(name) for name in counted))
        rated = summed.withColumn("DUPLICATE_RATE", share("COUNT_OF_DUPLICATES", "COUNT_OF_DELIVERIES"))
        both = rated.unionByName(percentiles(tables["latency"]), allowMissingColumns=True)
        return both.groupBy("DATE").agg(*(F.max(name).alias(name) for name in columns)).orderBy("DATE")

    whole = dict.fromkeys(("DATE", *columns), "bigint")
    return Summary("days", whole | {"DATE": "string", "DUPLICATE_RATE": "double"}, make)


def share(part: str, whole: str) -> Column:
    """Return the quotient of two counts; null where the divisor is 0."""
    return F.when(F.col(whole) > 0, F.col(part) / F.col(whole))


def words(code: Column, names: Mapping[str, int], otherwise: str = "") -> Column:
    """Return the word for a code."""
    chosen = F.when(F.lit(False), F.lit(""))
    for word, value in names.items():
        chosen = chosen.when(code == int(value), F.lit(word))
    return chosen.otherwise(otherwise)
