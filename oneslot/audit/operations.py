"""Tables for the people who run the service: totals, demand, latency, days. A consumer's `Model` may add its own.

A table is a function from the columns of judged subjects to its rows. Every figure is a sum, so each chunk adds up its own,
and a day's changes take back what the replaced subjects had added. Rates and percentiles do not add up: a `Summary` has them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oneslot.audit.judged import SubjectKind, Subjects
from oneslot.audit.write.tables import ARROW_TYPES, WrittenTable, grouped
from oneslot.laws.request import RequestVerdict

QUARTER_OF_AN_HOUR_MS = 900_000
DAY_MS = 86_400_000
SECOND_MS = 1_000
NUMBERS = ("QUARTER_HOUR", "LATENCY_MS", "AT")
"""The dimensions that are numbers."""
Columns = Mapping[str, Any]
"""The dimensions and figures of a table, each an array with a value for every subject that counts."""


@dataclass(frozen=True)
class OperationsTable:
    """An operations table: its dimensions, its summed figures, and the dimension that partitions it.

    `rows` returns the columns of the rows that judged subjects add.
    """

    name: str
    dimensions: tuple[str, ...]
    figures: tuple[str, ...]
    partition: str | None
    rows: Callable[[Subjects], Columns]

    @property
    def columns(self) -> dict[str, str]:
        """Its columns with Spark's types."""
        texts = {name: "bigint" if name in NUMBERS else "string" for name in self.dimensions}
        return texts | dict.fromkeys(self.figures, "bigint")

    @property
    def schema(self) -> pa.Schema:
        """Its columns with Arrow's types."""
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    def of(self, subjects: Subjects, sign: int = 1) -> pa.Table:
        """Return the rows that these subjects add, or take back with the sign -1."""
        found, arrays = self.rows(subjects), []
        for each in self.schema:
            column = found[each.name]
            arrays.append(pc.cast(column if isinstance(column, pa.Array) else pa.array(column), each.type))
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        if sign > 0:
            return table
        figures = [pc.negate(table[name]) for name in self.figures]
        return pa.Table.from_arrays([*(table[name] for name in self.dimensions), *figures], schema=self.schema)

    def summed(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Return the sums of these rows."""
        whole = pa.concat_tables([*tables, self.schema.empty_table()])
        return grouped(whole, self.dimensions, self.figures).cast(self.schema)


def date_of(milliseconds: Any) -> pa.Array:
    """Return the UTC dates of times (epoch ms) as texts."""
    days, places = np.unique(np.asarray(milliseconds) // DAY_MS, return_inverse=True)
    texts = [datetime.fromtimestamp(int(day) * DAY_MS // 1000, UTC).strftime("%Y-%m-%d") for day in days]
    return pa.array(texts, pa.string()).take(pa.array(places))


DEMAND_COUNTS = ("COUNT_OF_REQUESTS", "COUNT_OF_DELIVERIES", "COUNT_OF_DUPLICATES", "COUNT_OF_TAKEOVERS")
UNANSWERED = tuple(verdict.value for verdict in RequestVerdict)
OfSubjects = Callable[[Subjects], Any]


def demand(
    dimensions: Mapping[str, OfSubjects] | None = None, figures: Mapping[str, OfSubjects] | None = None
) -> OperationsTable:
    """Return the table of requests by the time at which they were sent. A consumer adds dimensions and figures."""
    more_dimensions = dimensions or {}
    more = figures if figures is not None else {"ANSWERED": lambda subjects: ~subjects.among("verdict", UNANSWERED)}

    def rows(subjects: Subjects) -> Columns:
        asked = subjects.sent_requests
        return {
            "DATE": date_of(asked.sent),
            "QUARTER_HOUR": asked.sent // QUARTER_OF_AN_HOUR_MS * QUARTER_OF_AN_HOUR_MS,
            **{name: of(asked) for name, of in more_dimensions.items()},
            "COUNT_OF_REQUESTS": np.ones(len(asked), np.int64),
            "COUNT_OF_DELIVERIES": asked.figure("deliveries"),
            "COUNT_OF_DUPLICATES": asked.figure("deliveries_duplicate"),
            "COUNT_OF_TAKEOVERS": np.maximum(asked.figure("ledger_consumptions") - 1, 0),
            **{name: of(asked) for name, of in more.items()},
            **{verdict.upper(): asked.among("verdict", (verdict,)) for verdict in UNANSWERED},
        }

    names = (*DEMAND_COUNTS, *more, *(verdict.upper() for verdict in UNANSWERED))
    return OperationsTable("demand", ("DATE", "QUARTER_HOUR", *more_dimensions), names, "DATE", rows)


def _latency(subjects: Subjects) -> Columns:
    asked = subjects.where(subjects.among("subject", (SubjectKind.REQUEST,))).sent_requests.where_given("first_done")
    waited = np.maximum(asked.figure("first_done") - asked.sent, 0)
    # Three significant digits: at most 1 % of error, and a few thousand rows for a history of any length.
    digits = np.searchsorted(10 ** np.arange(1, 18), waited, side="right") + 1
    step = 10 ** np.maximum(digits - 3, 0)
    ones = np.ones(len(asked), np.int64)
    return {"DATE": date_of(asked.sent), "LATENCY_MS": waited // step * step, "COUNT_OF_REQUESTS": ones}


LATENCY = OperationsTable("latency", ("DATE", "LATENCY_MS"), ("COUNT_OF_REQUESTS",), None, _latency)


def _by_second(subjects: Subjects) -> Columns:
    asked = subjects.sent_requests
    return {
        "AT": asked.sent // SECOND_MS * SECOND_MS,
        "requests": np.ones(len(asked), np.int64),
        "deliveries": asked.figure("deliveries"),
        "duplicates": asked.figure("deliveries_duplicate"),
    }


def _answers(subjects: Subjects) -> Columns:
    asked = subjects.sent_requests.where_given("first_done")
    # A consumer's clock may be behind SQS's.
    at = np.maximum(asked.figure("first_done"), asked.sent) // SECOND_MS * SECOND_MS
    return {"AT": at, "requests": np.ones(len(asked), np.int64)}


SECONDS = OperationsTable("seconds", ("AT",), ("requests", "deliveries", "duplicates"), None, _by_second)
ANSWERS = OperationsTable("answers", ("AT",), ("requests",), None, _answers)
"""Requests by the second in which they were sent and answered. The report alone has them, of a short full audit."""
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

    def rows(subjects: Subjects) -> Columns:
        there = subjects.where(~subjects.among("subject", (SubjectKind.GONE,)))
        texts = {name: pc.fill_null(there[name], "") for name in ("subject", "verdict", "violations")}
        return {
            **texts,
            "subjects": np.ones(len(there), np.int64),
            **{f"sum_{name}": there.figure(name) for name in summed},
        }

    names = ("subjects", *(f"sum_{name}" for name in summed))
    return OperationsTable("totals", ("subject", "verdict", "violations"), names, None, rows)


@dataclass(frozen=True)
class Summary:
    """A small table of rates and percentiles, computed from operations tables. `columns` have Spark's types."""

    name: str
    columns: Mapping[str, str]
    make: Callable[[Mapping[str, WrittenTable]], list[dict[str, Any]]]


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

    def make(tables: Mapping[str, WrittenTable]) -> list[dict[str, Any]]:
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
