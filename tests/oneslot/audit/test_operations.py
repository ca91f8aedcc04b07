"""The operations tables at their boundaries, from a few judged subjects."""

from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from demo.audit import tables as appointments
from demo.declared import CONSUMER
from lab.mutants.groups import MOMENT
from oneslot.audit import operations
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge.stage import Judging, _sums, add_up, without_zeros
from oneslot.audit.judged import Subjects
from oneslot.audit.model import model_of
from oneslot.audit.report.data import named_percentiles
from oneslot.audit.write.tables import WrittenTable, write_part

MODEL = model_of(CONSUMER)
MADE = {"practice": "A81001", "status": "booked", "delivery_channel": "In-person"}


def at(moment: str) -> int:
    """Return ISO 8601 as epoch ms."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def judged(subject: str = "request", verdict: str | None = "booked", **more: Any) -> dict[str, Any]:
    """Return a judged request with an appointment, as a row of columns. A figure that is not given is empty."""
    rows = {"appointments": MADE} | more.pop("rows", {})
    own = {f"{source}.{name}": value for source, row in rows.items() for name, value in row.items()}
    answer = more.pop("answer", "booked")
    verdicts = {"key": "k", "subject": subject, "verdict": verdict, "violations": ""}
    return {**verdicts, "ledger_outcome": MODEL.codes[answer], **more, **own}


def subjects(*rows: dict[str, Any]) -> Subjects:
    """Return judged subjects as columns."""
    own = pa.schema([(f"{source}.{name}", kind) for source, name, kind in MODEL.reads])
    return Subjects(pa.Table.from_pylist([*rows], pa.schema([*MODEL.arrow_schema, *own])))


def rows_of(table: operations.OperationsTable, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a table's rows without values of 0, sorted by its dimensions."""
    whole = without_zeros(table, table.summed([table.of(subjects(*rows))])).to_pylist()
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

    def of(start: str | None = None, **more: Any) -> dict[str, Any]:
        return judged(
            rows={"appointments": {**MADE, "created": created, **({"start": start} if start else {}), **more}}
        )

    rows = (
        *(of(f"{day}T00:00:00Z") for day in days),
        of("2026-11-23T23:59:59Z", delivery_channel="Telephone", status="cancelled"),
        of("2026-11-22T23:59:59Z", delivery_channel="Video"),
        of(delivery_channel="Fax", status="waitlist"),
        judged(rows={"appointments": {"status": "cancelled"}}),
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


def slot(practice: str, status: str = "free") -> dict[str, Any]:
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


def written(folder: Path, table: operations.OperationsTable, *rows: dict[str, Any]) -> WrittenTable:
    """Write a table of a few judged subjects."""
    home = folder / table.name
    write_part(str(home), 0, without_zeros(table, table.summed([table.of(subjects(*rows))])), table.partition)
    return WrittenTable(str(home), table.schema, table.partition)


def test_practices_include_those_without_demand_or_slots(tmp_path: Path) -> None:
    """A request that names no practice is in no row."""
    demand = (
        judged(delivery_sent=0, deliveries=4, deliveries_duplicate=1),
        judged(delivery_sent=0, rows={"appointments": {}}),
    )
    tables = {
        "demand": written(tmp_path, appointments.DEMAND, *demand),
        "utilisation": written(tmp_path, appointments.UTILISATION, slot("B", "busy"), slot("B")),
    }
    found = appointments.practices(tables)
    assert [(row["GP_CODE"], row["DUPLICATE_RATE"], row["UTILISATION"]) for row in found] == [
        ("A81001", 0.25, None),
        ("B", None, 0.5),
    ]


def test_day_has_its_own_latencies_and_rate(tmp_path: Path) -> None:
    """A day without an answer has none."""
    days = (
        judged(delivery_sent=0, first_done=7, deliveries=4, deliveries_duplicate=1),
        judged(delivery_sent=operations.DAY_MS, verdict="lost"),
    )
    tables = {
        "demand": written(tmp_path, appointments.DEMAND, *days),
        "latency": written(tmp_path, operations.LATENCY, *days),
    }
    first, second = operations.days(operations.DEMAND_COUNTS).make(tables)
    assert (first["DATE"], first["DUPLICATE_RATE"], first["LATENCY_P50_MS"], first["LATENCY_P999_MS"]) == (
        "1970-01-01",
        0.25,
        7,
        7,
    )
    assert (second["DATE"], second["DUPLICATE_RATE"], second["LATENCY_P50_MS"]) == ("1970-01-02", None, None)


def test_table_in_parts_has_the_rows_of_one_in_a_file(tmp_path: Path) -> None:
    """As files, with their types, and in their sums. Rows of zeros are in neither, and the old rows are taken back."""
    rows = [
        judged(delivery_sent=day * operations.DAY_MS + minute * 900_000, deliveries=2)
        for day in range(9)
        for minute in range(3)
    ]
    table, consumer = appointments.DEMAND, AuditConsumer(CONSUMER)
    found = {}
    for parts in (1, 3):
        judging = Judging(consumer, MOMENT, "", "", parts)
        blocks = [*_sums(judging, [(subjects(*rows), 1), (subjects(*rows[:2]), -1)])]
        home = tmp_path / f"{parts}"
        for part in range(parts):
            answer = add_up([(what, block) for of, what, block in blocks if of == part], judging.wanted)
            write_part(str(home), part, without_zeros(table, answer.tables[1]), table.partition)
        of = WrittenTable(str(home), table.schema, table.partition)
        found[parts] = (sorted(of.read().to_pylist(), key=str), of.sums(("DATE",), ("COUNT_OF_DELIVERIES",)))
        described = duckdb.execute(
            f"describe from read_parquet('{home}/*/*.parquet', hive_partitioning = true)"
        ).fetchall()
        assert {name for name, *_ in described} == {*table.columns}
    assert found[1] == found[3]
    assert found[1][1][0] == {"DATE": "1970-01-01", "COUNT_OF_DELIVERIES": 2}
    assert len({path.name for path in tmp_path.rglob("*.parquet")}) > 1
