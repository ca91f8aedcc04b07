"""The operations tables at their edges, of a few rows made by hand: what falls on which side of a boundary."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.pipeline.columns import packed, unpacked
from oneslot.pipeline.judge import operations
from oneslot.pipeline.judge.operations import tabulate

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
    """ISO 8601 → epoch ms."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def judged(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Rows of verdicts; what is not given is nothing."""
    usual: dict[str, Any] = {name: None if name in UNKNOWN else 0 for name in COLUMNS}
    usual |= {"key": "k", "subject": "request", "verdict": "booked", "weight": 1, "practice": A81001}
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame([tuple((usual | row).values()) for row in rows], schema)


def collected(table: DataFrame) -> list[dict[str, Any]]:
    """A table's rows, without what is 0."""
    return [{name: value for name, value in row.asDict().items() if value != 0} for row in table.collect()]


def test_a_request_counts_on_the_day_and_in_the_quarter_in_which_it_was_sent(spark: SparkSession) -> None:
    """UTC, also where clocks are put back in England and on a leap day; SQS's time goes before the producer's."""
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
    assert collected(tabulate(operations.DEMAND, rows)) == [
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


def test_a_latency_keeps_three_digits(spark: SparkSession) -> None:
    """Cut off and not rounded; a clock that is behind the queue's answered at once, and who has no answer has no latency."""
    waits = (0, 1, 999, 1_000, 1_009, 1_010, 123_456, -5)
    sent = at("2026-11-23T08:00:00Z")
    rows = judged(
        spark,
        *({"delivery_sent": sent, "first_done": sent + wait} for wait in waits),
        {"delivery_sent": sent},
        {"delivery_sent": sent, "first_done": sent, "subject": "unidentified"},
    )
    table = tabulate(operations.LATENCY, rows).collect()
    assert [(row.LATENCY_MS, row.COUNT_OF_REQUESTS) for row in table] == [
        (0, 2),
        (1, 1),
        (999, 1),
        (1_000, 2),
        (1_010, 1),
        (123_000, 1),
    ]
    assert {row.DATE for row in table} == {"2026-11-23"}


def test_percentiles_are_reached_and_not_passed(spark: SparkSession) -> None:
    """Of a thousand requests the 999th is P999, and the 500th P50, though 0.999 is no number of this machine's."""
    rows = [("d", wait, 1) for wait in range(1, 1_001)] + [("one", 7, 1)]
    latency = spark.createDataFrame(rows, "DATE string, LATENCY_MS bigint, COUNT_OF_REQUESTS bigint")
    found = {row.DATE: tuple(row)[1:] for row in operations.percentiles(latency).collect()}
    assert found == {"d": (500, 900, 950, 990, 999), "one": (7,) * 5}


def test_days_ahead_are_the_publications(spark: SparkSession) -> None:
    """Counted from midnight to midnight; who waits has no day, and a tombstone is no appointment."""
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
    table = tabulate(operations.APPOINTMENTS, rows).collect()
    booked = {row.APPOINTMENT_DATE: row.TIME_BETWEEN_BOOK_AND_APPT for row in table if row.APPT_MODE == "Face-to-Face"}
    assert list(booked.values()) == list(ahead.values())
    assert (min(booked), max(booked)) == ("2026-11-24", "2026-12-22")
    others = sorted(tuple(row) for row in table if row.APPT_MODE != "Face-to-Face")
    assert others == [
        ("", "A81001", "Waitlist", "Unknown", "", 1),
        ("2026-11-22", "A81001", "Booked", "Video", "Same Day", 1),
        ("2026-11-23", "A81001", "Cancelled", "Telephone", "Same Day", 1),
    ]


def test_slots_by_day_and_practice(spark: SparkSession) -> None:
    """A broken slot is offered and not busy; what is no slot, or has gone, is not there."""
    slot = {"subject": "slot", "slot_rows": 1, "slot_date": 20280229, "slot_status": 1, "verdict": None}
    rows = judged(
        spark,
        *({**slot, "key": "#A81001#1", "slot_status": status} for status in (1, 2, 2, 3)),
        {**slot, "key": "#A81002#1"},
        {**slot, "key": "#A81002#2", "slot_rows": 0},
        {**slot, "key": "#A81002#3", "subject": "file"},
    )
    assert [tuple(row) for row in tabulate(operations.UTILISATION, rows).collect()] == [
        ("20280229", "A81001", 4, 2),
        ("20280229", "A81002", 1, 0),
    ]


def test_a_practice_that_nobody_asked_and_one_without_slots_are_there(spark: SparkSession) -> None:
    """Rates are of what there is; a request that names no practice is in no row."""
    demand = judged(
        spark,
        {"delivery_sent": 0, "deliveries": 4, "deliveries_duplicate": 1},
        {"delivery_sent": 0, "practice": None},
    )
    slots = {"subject": "slot", "slot_rows": 1, "slot_date": 20261123, "slot_status": 2, "key": "#B#1"}
    tables = {
        "demand": tabulate(operations.DEMAND, demand),
        "utilisation": tabulate(operations.UTILISATION, judged(spark, slots, {**slots, "slot_status": 1})),
    }
    assert [(row.GP_CODE, row.DUPLICATE_RATE, row.UTILISATION) for row in operations.practices(tables).collect()] == [
        ("A81001", 0.25, None),
        ("B", None, 0.5),
    ]


def test_codes_that_no_practice_has_are_shortened_and_stop_nothing(spark: SparkSession) -> None:
    """Eight characters fit as they are; a name of a pilot's, with letters of its own, ended the audit with an overflow."""
    codes = {"A81001": "A81001", "A8100100": "A8100100", "A81001001": "A810010~", "Žižkov": "?i?kov", "": ""}
    codes |= {"éééééé12": "??????12", "日本語医院です": "???????", "Praxis Köln": "Praxis ~", "éééé": "????"}
    table = spark.createDataFrame([(code,) for code in codes], "code string")
    from pyspark.sql import functions as F  # noqa: N812

    assert [row[0] for row in table.select(unpacked(packed(F.col("code")))).collect()] == list(codes.values())
