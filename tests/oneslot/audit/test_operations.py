"""The operations tables at their boundaries, from a few judged subjects."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from demo.audit import tables as appointments
from demo.declared import CONSUMER
from oneslot.audit import operations
from oneslot.audit.judged import Judged
from oneslot.audit.model import model_of
from oneslot.audit.report.data import named_percentiles
from oneslot.audit.spark.storage import Storage
from oneslot.audit.write.rows import FewRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIGURES = model_of(CONSUMER).figures
MADE = {"appointment_id": "k", "practice": "A81001", "status": "booked", "delivery_channel": "In-person"}


def at(moment: str) -> int:
    """Return ISO 8601 as epoch ms."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def judged(subject: str = "request", verdict: str | None = "booked", **more: Any) -> Judged:
    """Return a judged request with an appointment. A figure that is not given is empty."""
    rows = {"appointments": MADE} | more.pop("rows", {})
    result = {"outcome": more.pop("answer", "booked"), "appointment_id": "k"}
    row = {"status": "COMPLETE", "result": json.dumps(result)}
    evidence = CONSUMER.evidence(ledger={"k": row}, appointments={"k": MADE})
    return Judged("k", subject, verdict, "", dict.fromkeys(FIGURES) | more, rows, evidence.request("k").recorded)


def rows_of(table: operations.OperationsTable, *subjects: Judged) -> list[dict[str, Any]]:
    """Return a table's rows without values of 0, sorted by its dimensions."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(table.figures))
    for subject in subjects:
        if (cell := table.cell(subject)) is not None:
            sums = found[tuple(cell[0])]
            sums[:] = [one + (other or 0) for one, other in zip(sums, cell[1], strict=True)]
    names = (*table.dimensions, *table.figures)
    whole = [dict(zip(names, (*dimensions, *sums), strict=True)) for dimensions, sums in sorted(found.items())]
    return [{name: value for name, value in row.items() if value != 0} for row in whole]


def test_demand_counts_a_request_when_it_was_sent() -> None:
    """In UTC, when clocks change in England and on a leap day. SQS's time comes before the producer's."""
    rows = (
        judged(delivery_sent=at("2026-10-25T01:14:59.999+01:00"), deliveries=3, deliveries_duplicate=1),
        judged(delivery_sent=at("2026-10-25T01:14:59.999+00:00"), accepted_sent=1, ledger_consumptions=3),
        judged(delivery_sent=at("2026-10-25T01:15:00+00:00"), verdict="waitlist", answer="waitlist"),
        judged("unidentified", accepted_sent=at("2028-02-29T23:59:59.999Z"), rows={"appointments": {}}),
        judged("slot", delivery_sent=at("2028-03-01T00:00:00Z")),
        judged(verdict="lost"),
    )
    one = {"GP_CODE": "A81001", "COUNT_OF_REQUESTS": 1, "BOOKED": 1}
    assert rows_of(appointments.DEMAND, *rows) == [
        {
            "DATE": "2026-10-25",
            "QUARTER_HOUR": at("2026-10-25T00:00:00Z"),
            **one,
            "COUNT_OF_DELIVERIES": 3,
            "COUNT_OF_DUPLICATES": 1,
        },
        {"DATE": "2026-10-25", "QUARTER_HOUR": at("2026-10-25T01:00:00Z"), **one, "COUNT_OF_TAKEOVERS": 2},
        {
            "DATE": "2026-10-25",
            "QUARTER_HOUR": at("2026-10-25T01:15:00Z"),
            "GP_CODE": "A81001",
            "COUNT_OF_REQUESTS": 1,
            "COUNT_OF_DID_NOT_FIT": 1,
            "WAITLIST": 1,
        },
        {**one, "DATE": "2028-02-29", "QUARTER_HOUR": at("2028-02-29T23:45:00Z"), "GP_CODE": ""},
    ]


def test_latency_keeps_three_digits() -> None:
    """Truncated. A clock behind the queue's gives 0, and a request without an answer has no latency."""
    waits = (0, 1, 999, 1_000, 1_009, 1_010, 123_456, -5)
    sent = at("2026-11-23T08:00:00Z")
    rows = (
        *(judged(delivery_sent=sent, first_done=sent + wait) for wait in waits),
        judged(delivery_sent=sent),
        judged("unidentified", delivery_sent=sent, first_done=sent),
    )
    table = rows_of(operations.LATENCY, *rows)
    assert [(row.get("LATENCY_MS", 0), row["COUNT_OF_REQUESTS"]) for row in table] == [
        (0, 2),
        (1, 1),
        (999, 1),
        (1_000, 2),
        (1_010, 1),
        (123_000, 1),
    ]
    assert {row["DATE"] for row in table} == {"2026-11-23"}


def test_percentile_is_the_first_time_that_reaches_it() -> None:
    """Of a thousand requests the 999th is P999, although 0.999 is not exact in binary. The report names its own."""
    parts = operations.PERCENTILES.values()
    assert operations.percentiles(dict.fromkeys(range(1, 1_001), 1), parts) == [500, 900, 950, 990, 999]
    assert operations.percentiles({7: 1}, parts) == [7] * len(parts)
    latency = [(10, 500), (20, 490), (30, 9), (40, 1)]
    assert named_percentiles(latency) == [("50 %", 10), ("90 %", 20), ("99 %", 20), ("99.9 %", 30)]
    assert operations.percentiles({}, parts) == []
    assert named_percentiles([]) == []


def test_days_ahead_use_the_publications_words() -> None:
    """Counted from midnight to midnight. A waiting request has no day, and a tombstone is not an appointment."""
    created = at("2026-11-23T23:59:59Z")
    ahead = {24: "1 Day", 25: "2 to 7 Days", 30: "2 to 7 Days", 31: "8 to 14 Days", 37: "8 to 14 Days"}
    days = {f"2026-11-{day}": word for day, word in ahead.items() if day <= 30}
    days |= {f"2026-12-{day - 30:02d}": word for day, word in ahead.items() if day > 30}
    days |= {"2026-12-08": "15 to 21 Days", "2026-12-14": "15 to 21 Days", "2026-12-15": "22 to 28 Days"}
    days |= {"2026-12-21": "22 to 28 Days", "2026-12-22": "More than 28 Days"}

    def of(start: str | None = None, **more: Any) -> Judged:
        return judged(
            rows={"appointments": {**MADE, "created": created, **({"start": start} if start else {}), **more}}
        )

    rows = (
        *(of(f"{day}T00:00:00Z") for day in days),
        of("2026-11-23T23:59:59Z", delivery_channel="Telephone", status="cancelled"),
        of("2026-11-22T23:59:59Z", delivery_channel="Video"),
        of(delivery_channel="Fax", status="waitlist"),
        judged(rows={"appointments": {"appointment_id": "k", "status": "cancelled"}}),
        judged(rows={"appointments": {}}),
    )
    table = rows_of(appointments.APPOINTMENTS, *rows)
    booked = {
        row["APPOINTMENT_DATE"]: row["TIME_BETWEEN_BOOK_AND_APPT"]
        for row in table
        if row["APPT_MODE"] == "Face-to-Face"
    }
    assert booked == days
    others = [tuple(row.values()) for row in table if row["APPT_MODE"] != "Face-to-Face"]
    assert others == [
        ("", "A81001", "Waitlist", "Unknown", "", 1),
        ("2026-11-22", "A81001", "Booked", "Video", "Same Day", 1),
        ("2026-11-23", "A81001", "Cancelled", "Telephone", "Same Day", 1),
    ]


def slot(practice: str, status: str = "free") -> Judged:
    """Return a judged slot."""
    row = {"practice": practice, "status": status, "start": "2028-02-29T08:00:00Z"}
    return judged("slot", None, rows={"slots": row, "appointments": {}})


def test_utilisation_counts_slots_by_day_and_practice() -> None:
    rows = [slot("A81001", status) for status in ("free", "busy", "busy", "free")]
    table = rows_of(appointments.UTILISATION, *rows, slot("a practice with a long name"), judged())
    assert [tuple(row.values()) for row in table] == [
        ("20280229", "A81001", 4, 2),
        ("20280229", "a practice with a long name", 1),
    ]


def few(table: operations.OperationsTable, *subjects: Judged) -> FewRows:
    """Return a table of a few judged subjects."""
    whole = [dict.fromkeys(table.columns, 0) | row for row in rows_of(table, *subjects)]
    return FewRows(whole, table.columns)


def test_practices_include_those_without_demand_or_slots() -> None:
    """A request that names no practice is in no row."""
    demand = (
        judged(delivery_sent=0, deliveries=4, deliveries_duplicate=1),
        judged(delivery_sent=0, rows={"appointments": {}}),
    )
    tables = {
        "demand": few(appointments.DEMAND, *demand),
        "utilisation": few(appointments.UTILISATION, slot("B", "busy"), slot("B")),
    }
    found = appointments.practices(tables)
    assert [(row["GP_CODE"], row["DUPLICATE_RATE"], row["UTILISATION"]) for row in found] == [
        ("A81001", 0.25, None),
        ("B", None, 0.5),
    ]


def test_day_has_its_own_latencies_and_rate() -> None:
    """A day without an answer has none."""
    days = (
        judged(delivery_sent=0, first_done=7, deliveries=4, deliveries_duplicate=1),
        judged(delivery_sent=operations.DAY_MS, verdict="lost"),
    )
    tables = {"demand": few(appointments.DEMAND, *days), "latency": few(operations.LATENCY, *days)}
    first, second = operations.days(operations.DEMAND_COUNTS).make(tables)
    assert (first["DATE"], first["DUPLICATE_RATE"], first["LATENCY_P50_MS"], first["LATENCY_P999_MS"]) == (
        "1970-01-01",
        0.25,
        7,
        7,
    )
    assert (second["DATE"], second["DUPLICATE_RATE"], second["LATENCY_P50_MS"]) == ("1970-01-02", None, None)


@pytest.mark.spark
def test_tables_are_the_same_from_few_rows_and_from_many(spark: SparkSession, tmp_path: Path) -> None:
    """As files, with their types, and in their sums. Rows of zeros are in neither."""
    demand = {"t": 0, "f": [1] * len(appointments.DEMAND.figures)}
    latency = {"t": 1, "d": ["2026-11-23", 20], "f": [1]}
    none = {"t": 1, "d": ["2026-11-23", 3], "f": [0]}
    chunks = [
        [demand | {"d": ["2026-11-24", 900_000, "B"]}, latency],
        [demand | {"d": ["2026-11-23", quarter, "A"]} for quarter in (1_800_000, 900_000)] + [latency, none],
    ]
    cells = spark.createDataFrame([(json.dumps(chunk),) for chunk in chunks], "cells string")
    storage, written, sums = Storage(spark), [], []
    tables = (appointments.DEMAND, operations.LATENCY)
    for is_few in (True, False):
        made = operations.tabulate(tables, cells, {}, few=is_few)
        for table in tables:
            folder = str(tmp_path / f"{is_few}-{table.name}")
            made[table.name].write(storage, folder, table.partition)
            read = f"from read_parquet('{folder}/**/*.parquet')"
            written.append([duckdb.execute(query).fetchall() for query in (f"describe {read}", read)])
        of_latency = made["latency"].sums(("LATENCY_MS",), ("COUNT_OF_REQUESTS",))
        sums.append([made["demand"].sums(("DATE",), ("BOOKED",)), of_latency])
    assert written[:2] == written[2:]
    assert sums[0] == sums[1]
    assert sums[0] == [
        [{"DATE": "2026-11-23", "BOOKED": 2}, {"DATE": "2026-11-24", "BOOKED": 1}],
        [{"LATENCY_MS": 20, "COUNT_OF_REQUESTS": 2}],
    ]
