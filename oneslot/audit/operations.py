"""Tables for the people who run the service: totals, demand, latency, days. A consumer's `Model` may add its own.

Every figure of a `Table` is a sum, so the stage adds them up for each chunk, and a day's changes take back what the replaced
rows had added. Rates and percentiles do not add up, and are computed from the tables as a `Summary`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.judged import Judged, Sums, add_cell
from oneslot.audit.vocabulary import SubjectKind
from oneslot.audit.write.rows import FewRows, ManyRows, Rows
from oneslot.laws.request import RequestVerdict

QUARTER_OF_AN_HOUR_MS = 900_000
DAY_MS = 86_400_000
NUMBERS = ("QUARTER_HOUR", "LATENCY_MS")
"""The dimensions that are numbers."""
CELLS = "array<struct<t: int, d: array<string>, f: array<bigint>>>"
"""The JSON of a chunk's sums: the number of a table, the dimensions and the figures of one of its rows."""
Cell = tuple[Sequence[str | int], Sequence[int | None]]


@dataclass(frozen=True)
class OperationsTable:
    """An operations table: its dimensions, its summed figures, and the dimension that partitions it.

    `cell` returns the dimensions and figures that one judged subject adds; None if it does not count.
    """

    name: str
    dimensions: tuple[str, ...]
    figures: tuple[str, ...]
    partition: str | None
    cell: Callable[[Judged], Cell | None]

    @property
    def columns(self) -> dict[str, str]:
        """Its columns with Spark's types."""
        texts = {name: "bigint" if name in NUMBERS else "string" for name in self.dimensions}
        return texts | dict.fromkeys(self.figures, "bigint")


@lru_cache(4096)
def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_MS // 1000, UTC).strftime("%Y-%m-%d")


def date_of(milliseconds: int) -> str:
    """Return the UTC date of a time (epoch ms) as text."""
    return _date(milliseconds // DAY_MS)


DEMAND_COUNTS = ("COUNT_OF_REQUESTS", "COUNT_OF_DELIVERIES", "COUNT_OF_DUPLICATES", "COUNT_OF_TAKEOVERS")
UNANSWERED = tuple(verdict.value for verdict in RequestVerdict)


def demand(
    dimensions: Mapping[str, Callable[[Judged], str]] | None = None,
    figures: Mapping[str, Callable[[Judged], int]] | None = None,
) -> OperationsTable:
    """Return the table of requests by the time at which they were sent. A consumer adds dimensions and figures."""
    more_dimensions = dimensions or {}
    more = figures if figures is not None else {"ANSWERED": lambda judged: int(judged.verdict not in UNANSWERED)}

    def cell(judged: Judged) -> Cell | None:
        if not judged.is_request or (sent := judged.sent) is None:
            return None
        found = judged.figures
        quarter = sent // QUARTER_OF_AN_HOUR_MS * QUARTER_OF_AN_HOUR_MS
        takeovers = max((found["ledger_consumptions"] or 0) - 1, 0)
        return (date_of(sent), quarter, *(of(judged) for of in more_dimensions.values())), (
            1,
            found["deliveries"],
            found["deliveries_duplicate"],
            takeovers,
            *(of(judged) for of in more.values()),
            *(int(judged.verdict == verdict) for verdict in UNANSWERED),
        )

    names = (*DEMAND_COUNTS, *more, *(verdict.upper() for verdict in UNANSWERED))
    return OperationsTable("demand", ("DATE", "QUARTER_HOUR", *more_dimensions), names, "DATE", cell)


def _latency(judged: Judged) -> Cell | None:
    sent, done = judged.sent, judged.figures["first_done"]
    if judged.subject != SubjectKind.REQUEST or done is None or sent is None:
        return None
    waited = max(done - sent, 0)
    # Three significant digits: at most 1 % of error, and a few thousand rows for a history of any length.
    step = 10 ** max(len(str(waited)) - 3, 0)
    return (date_of(sent), waited // step * step), (1,)


LATENCY = OperationsTable("latency", ("DATE", "LATENCY_MS"), ("COUNT_OF_REQUESTS",), None, _latency)
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


def totals(row_counts: Sequence[str]) -> OperationsTable:
    """Return the table of totals, from which the conclusion follows. `row_counts` count the rows of each export."""
    summed = (*row_counts, *SUMMED_LOGS)
    figures_of = itemgetter(*summed)

    def cell(judged: Judged) -> Cell | None:
        if judged.subject == SubjectKind.GONE:
            return None
        return (str(judged.subject), judged.verdict or "", judged.violations), (1, *figures_of(judged.figures))

    names = ("subjects", *(f"sum_{name}" for name in summed))
    return OperationsTable("totals", ("subject", "verdict", "violations"), names, None, cell)


def tabulate(
    tables: Sequence[OperationsTable], cells: DataFrame, yesterday: Mapping[str, DataFrame], *, few: bool
) -> dict[str, Rows]:
    """Return tables from the chunks' cells, added to yesterday's tables where there are any.

    One job makes them all. Few rows are added up here, and many in Spark, whose result is kept until its cache is cleared.
    """
    if few and not yesterday:
        sums: Sums = {}
        for (text,) in cells.collect():
            for row in json.loads(text):
                add_cell(sums, row["t"], row["d"], row["f"], 1)
        return {
            table.name: FewRows(_rows_of(sums, number, table), table.columns) for number, table in enumerate(tables)
        }
    together = cells.selectExpr(f"inline(from_json(cells, '{CELLS}'))")
    for number, table in enumerate(tables):
        if table.name in yesterday:
            dimensions = ", ".join(f"CAST({name} AS STRING)" for name in table.dimensions)
            rows = yesterday[table.name].selectExpr(
                f"{number} AS t", f"array({dimensions}) AS d", f"array({', '.join(table.figures)}) AS f"
            )
            together = together.unionByName(rows)
    width = range(max(len(table.figures) for table in tables))
    summed = (
        together.groupBy("t", "d")
        .agg(*(F.expr(f"coalesce(sum(get(f, {place})), 0L) AS f{place}") for place in width))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    return {table.name: ManyRows(_of_table(summed, number, table)) for number, table in enumerate(tables)}


def _rows_of(sums: Sums, number: int, table: OperationsTable) -> list[dict[str, Any]]:
    """Return the rows of one table from the sums of all, sorted, without rows of zeros."""
    mine = sorted((dimensions, figures) for (of, *dimensions), figures in sums.items() if of == number and any(figures))
    return [dict(zip(table.columns, (*dimensions, *figures), strict=True)) for dimensions, figures in mine]


def _of_table(summed: DataFrame, number: int, table: OperationsTable) -> DataFrame:
    """Return one table from the sums of all, sorted. Rows of zeros are left out, so that it equals that of a full audit."""
    dimensions = [
        f"CAST(d[{place}] AS BIGINT) AS {name}" if name in NUMBERS else f"d[{place}] AS {name}"
        for place, name in enumerate(table.dimensions)
    ]
    left = " OR ".join(f"f{place} != 0" for place in range(len(table.figures)))
    mine = summed.where(f"t = {number} AND ({left})")
    figures = (f"f{place} AS {name}" for place, name in enumerate(table.figures))
    return mine.selectExpr(*dimensions, *figures).orderBy(*table.dimensions)


@dataclass(frozen=True)
class Summary:
    """A small table of rates and percentiles, computed from operations tables. `columns` have Spark's types."""

    name: str
    columns: Mapping[str, str]
    make: Callable[[Mapping[str, Rows]], list[dict[str, Any]]]


PERCENTILES = {"P50": 500, "P90": 900, "P95": 950, "P99": 990, "P999": 999}
"""The summaries' percentiles, in thousandths."""


def percentiles(counts: Mapping[int, int], thousandths: Iterable[int]) -> list[int]:
    """Return the first times (ms) that these shares of requests reach, from the requests by their times; none without any."""
    waits = sorted(counts)
    seen = [*zip(accumulate(counts[wait] for wait in waits), waits, strict=True)]
    total = sum(counts.values())
    return [next(wait for so_far, wait in seen if so_far * 1000 >= part * total) for part in thousandths if seen]


def days(counted: Sequence[str]) -> Summary:
    """Return the summary by day of sending: these figures of the table `demand`, the duplicate rate and the latencies."""
    latencies = [f"LATENCY_{name}_MS" for name in PERCENTILES]

    def make(tables: Mapping[str, Rows]) -> list[dict[str, Any]]:
        waits: dict[str, dict[int, int]] = defaultdict(dict)
        for row in tables["latency"].sums(("DATE", "LATENCY_MS"), ("COUNT_OF_REQUESTS",)):
            waits[row["DATE"]][row["LATENCY_MS"]] = row["COUNT_OF_REQUESTS"]
        return [
            dict.fromkeys(latencies)
            | row
            | {"DUPLICATE_RATE": share(row["COUNT_OF_DUPLICATES"], row["COUNT_OF_DELIVERIES"])}
            | dict(zip(latencies, percentiles(waits[row["DATE"]], PERCENTILES.values()), strict=False))
            for row in tables["demand"].sums(("DATE",), counted)
        ]

    whole = dict.fromkeys(("DATE", *counted, "DUPLICATE_RATE", *latencies), "bigint")
    return Summary("days", whole | {"DATE": "string", "DUPLICATE_RATE": "double"}, make)


def share(part: int, whole: int) -> float | None:
    """Return the quotient of two counts; None where the divisor is 0."""
    return part / whole if whole else None
