"""The operations tables at their boundaries, from a few hand-written rows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.pipeline.columns import packed, unpacked
from oneslot.pipeline.judge import operations
from workload.audit import tables as appointments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {
    "key": "string",
    "subject": "string",
    "verdict": "string",
    "weight": "int",
    "practice": "bigint",
    **dict.fromkeys(
        (
            "delivery_sent",
            "accepted_sent",
            "first_done",
            "deliveries",
            "deliveries_duplicate",
            "ledger_consumptions",
            "ledger_outcome",
            "appointment_rows",
            "appointment_status",
            "appointment_channel",
            "appointment_created",
            "appointment_start",
            "slot_rows",
            "slot_status",
            "slot_date",
        ),
        "bigint",
    ),
}
A81001 = int.from_bytes(b"A81001")
UNKNOWN = ("delivery_sent", "accepted_sent", "first_done")


def at(moment: str) -> int:
    """Return ISO 8601 as epoch ms."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def judged(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return rows of verdicts. A column that is not given is empty."""
    usual: dict[str, Any] = {name: None if name in UNKNOWN else 0 for name in COLUMNS}
    usual |= {"key": "k", "subject": "request", "verdict": "booked", "weight": 1, "practice": A81001}
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame([tuple((usual | row).values()) for row in rows], schema)


def table_of(table: operations.Table, rows: DataFrame) -> DataFrame:
    """Return one table from judged rows."""
    return operations.tabulate((table,), rows)[table.name]


def collected(table: DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows without values of 0."""
    return [{name: value for name, value in row.asDict().items() if value != 0} for row in table.collect()]


def test_demand_counts_a_request_when_it_was_sent(spark: SparkSession) -> None:
    """In UTC, when clocks change in England and on a leap day. SQS's time comes before the producer's."""
    rows = judged(
        spark,
        {"delivery_sent": at("2026-10-25T01:14:59.999+01:00"), "deliveries": 3, "deliveries_duplicate": 1},
        {"delivery_sent": at("2026-10-25T01:14:59.999+00:00"), "accepted_sent": 1, "ledger_consumptions": 3},
        {"delivery_sent": at("2026-10-25T01:15:00+00:00"), "verdict": "waitlist", "ledger_outcome": 2},
        {"accepted_sent": at("2028-02-29T23:59:59.999Z"), "subject": "unidentified", "practice": None},
        {"delivery_sent": at("2028-03-01T00:00:00Z"), "weight": -1},
        {"delivery_sent": at("2028-03-01T00:00:00Z")},
        {"delivery_sent": at("2028-03-01T00:00:00Z"), "subject": "slot"},
        {"verdict": "lost"},
    )
    one = {"GP_CODE": "A81001", "COUNT_OF_REQUESTS": 1, "BOOKED": 1}
    assert collected(table_of(appointments.DEMAND, rows)) == [
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


def test_latency_keeps_three_digits(spark: SparkSession) -> None:
    """Truncated. A clock behind the queue's gives 0, and a request without an answer has no latency."""
    waits = (0, 1, 999, 1_000, 1_009, 1_010, 123_456, -5)
    sent = at("2026-11-23T08:00:00Z")
    rows = judged(
        spark,
        *({"delivery_sent": sent, "first_done": sent + wait} for wait in waits),
        {"delivery_sent": sent},
        {"delivery_sent": sent, "first_done": sent, "subject": "unidentified"},
    )
    table = table_of(operations.LATENCY, rows).collect()
    assert [(row.LATENCY_MS, row.COUNT_OF_REQUESTS) for row in table] == [
        (0, 2),
        (1, 1),
        (999, 1),
        (1_000, 2),
        (1_010, 1),
        (123_000, 1),
    ]
    assert {row.DATE for row in table} == {"2026-11-23"}


def test_percentile_is_the_first_time_that_reaches_it(spark: SparkSession) -> None:
    """Of a thousand requests the 999th is P999, although 0.999 is not exact in binary."""
    rows = [("d", wait, 1) for wait in range(1, 1_001)] + [("one", 7, 1)]
    latency = spark.createDataFrame(rows, "DATE string, LATENCY_MS bigint, COUNT_OF_REQUESTS bigint")
    found = {row.DATE: tuple(row)[1:] for row in operations.percentiles(latency).collect()}
    assert found == {"d": (500, 900, 950, 990, 999), "one": (7,) * 5}


def test_days_ahead_use_the_publications_words(spark: SparkSession) -> None:
    """Counted from midnight to midnight. A waiting request has no day, and a tombstone is not an appointment."""
    created = at("2026-11-23T23:59:59Z")
    midnight = at("2026-11-24T00:00:00Z")
    ahead = {0: "1 Day", 1: "2 to 7 Days", 6: "2 to 7 Days", 7: "8 to 14 Days", 13: "8 to 14 Days"}
    ahead |= {14: "15 to 21 Days", 21: "22 to 28 Days", 27: "22 to 28 Days", 28: "More than 28 Days"}
    made = {"appointment_rows": 1, "appointment_status": 1, "appointment_channel": 1, "appointment_created": created}
    rows = judged(
        spark,
        *({**made, "appointment_start": midnight + days * operations.DAY_MS} for days in ahead),
        {**made, "appointment_start": midnight - 1, "appointment_channel": 2, "appointment_status": 3},
        {**made, "appointment_start": created - operations.DAY_MS, "appointment_channel": 3},
        {**made, "appointment_status": 2, "appointment_channel": 9},
        {**made, "appointment_status": 4},
        {**made, "appointment_rows": 0},
    )
    table = table_of(appointments.APPOINTMENTS, rows).collect()
    booked = {row.APPOINTMENT_DATE: row.TIME_BETWEEN_BOOK_AND_APPT for row in table if row.APPT_MODE == "Face-to-Face"}
    assert list(booked.values()) == list(ahead.values())
    assert (min(booked), max(booked)) == ("2026-11-24", "2026-12-22")
    others = sorted(tuple(row) for row in table if row.APPT_MODE != "Face-to-Face")
    assert others == [
        ("", "A81001", "Waitlist", "Unknown", "", 1),
        ("2026-11-22", "A81001", "Booked", "Video", "Same Day", 1),
        ("2026-11-23", "A81001", "Cancelled", "Telephone", "Same Day", 1),
    ]


def test_utilisation_counts_slots_by_day_and_practice(spark: SparkSession) -> None:
    """A broken slot is offered and not busy; a deleted slot does not count."""
    slot = {"subject": "slot", "slot_rows": 1, "slot_date": 20280229, "slot_status": 1, "verdict": None}
    rows = judged(
        spark,
        *({**slot, "key": "#A81001#1", "slot_status": status} for status in (1, 2, 2, 3)),
        {**slot, "key": "#A81002#1"},
        {**slot, "key": "#A81002#2", "slot_rows": 0},
        {**slot, "key": "#A81002#3", "subject": "file"},
    )
    assert [tuple(row) for row in table_of(appointments.UTILISATION, rows).collect()] == [
        ("20280229", "A81001", 4, 2),
        ("20280229", "A81002", 1, 0),
    ]


def test_practices_include_those_without_demand_or_slots(spark: SparkSession) -> None:
    """A request that names no practice is in no row."""
    demand = judged(
        spark,
        {"delivery_sent": 0, "deliveries": 4, "deliveries_duplicate": 1},
        {"delivery_sent": 0, "practice": None},
    )
    slots = {"subject": "slot", "slot_rows": 1, "slot_date": 20261123, "slot_status": 2, "key": "#B#1"}
    tables = {
        "demand": table_of(appointments.DEMAND, demand),
        "utilisation": table_of(appointments.UTILISATION, judged(spark, slots, {**slots, "slot_status": 1})),
    }
    assert [(row.GP_CODE, row.DUPLICATE_RATE, row.UTILISATION) for row in appointments.practices(tables).collect()] == [
        ("A81001", 0.25, None),
        ("B", None, 0.5),
    ]


def test_packed_code_is_shortened_when_it_is_too_long(spark: SparkSession) -> None:
    """A pilot's practice name with other letters once ended the audit with an overflow."""
    codes = {"A81001": "A81001", "A8100100": "A8100100", "A81001001": "A810010~", "Žižkov": "?i?kov", "": ""}
    codes |= {"éééééé12": "??????12", "日本語医院です": "???????", "Praxis Köln": "Praxis ~", "éééé": "????"}
    table = spark.createDataFrame([(code,) for code in codes], "code string")
    from pyspark.sql import functions as F  # noqa: N812

    assert [row[0] for row in table.select(unpacked(packed(F.col("code")))).collect()] == list(codes.values())
