"""A historical file becomes each request once; feeding or seeding it twice counts once."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from exactly_once.identity import parse_body, payload_hash
from oneslot.audit_commands import backfill_file
from oneslot.backfill import Access, Feeder, Seeder
from pipeline.errors import AuditRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKING = {
    "type": "book",
    "practice": "A81001",
    "nhs_number": "9990000018",
    "not_before": "2026-11-23T08:00:00+00:00",
    "not_after": "2026-11-24T08:00:00+00:00",
    "delivery_channel": "Telephone",
    "service_type": "Planned Clinics",
}


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    """A file as a hospital would export it."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["message_id", *BOOKING, "appointment_id"])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.spark
def test_each_request_once(spark: SparkSession, tmp_path: Path) -> None:
    """By id, by content where there is no id; an id with two contents is nobody's to choose."""
    from pipeline.backfill import deduplicate, read_requests

    rows = [
        {"message_id": "a", **BOOKING},
        {"message_id": "a", **BOOKING},
        {"message_id": "b", **BOOKING, "practice": 'A8"1002'},
        dict(BOOKING),
        dict(BOOKING),
        {"message_id": "c", **BOOKING},
        {"message_id": "c", **BOOKING, "practice": "A81009"},
        {"message_id": "d", "type": "cancel", "appointment_id": "a"},
        {"message_id": 'e"1', **BOOKING},
        # What a spreadsheet leaves behind: rows without anything, and one with an id and nothing else.
        {},
        {},
        {"message_id": "f"},
    ]
    found = deduplicate(read_requests(spark, str(write_csv(tmp_path / "old.csv", rows))))
    bodies = {row.message_id: json.loads(row.body) for row in found.rows.collect()}
    assert (found.read, found.empty, found.duplicates, found.conflicts) == (12, 2, 3, ["c"])
    content = next(name for name in bodies if name.startswith("content-"))
    assert bodies == {
        "a": {"message_id": "a", **BOOKING},
        "b": {"message_id": "b", **BOOKING, "practice": 'A8"1002'},
        content: {"message_id": content, **BOOKING},
        "d": {"message_id": "d", "type": "cancel", "appointment_id": "a"},
        'e"1': {"message_id": 'e"1', **BOOKING},
        "f": {"message_id": "f"},
    }
    digest = hashlib.sha256(json.dumps(dict(sorted(BOOKING.items())), separators=(",", ":")).encode()).hexdigest()
    assert content == f"content-{digest}", "the same in every version: a file is fed again after an upgrade, too"
    spark.createDataFrame([{"message_id": "a", **BOOKING}]).write.parquet(str(tmp_path / "old.parquet"))
    again = deduplicate(read_requests(spark, str(tmp_path / "old.parquet")))
    assert [row.body for row in again.rows.collect()] == [
        row.body for row in found.rows.where("message_id = 'a'").collect()
    ]


@pytest.mark.spark
def test_a_file_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Named by what is missing."""
    from pipeline.backfill import read_requests

    (tmp_path / "old.csv").write_text("name\nx\n")
    with pytest.raises(AuditRefused, match="has the columns name; a request needs `type`"):
        read_requests(spark, str(tmp_path / "old.csv"))
    with pytest.raises(AuditRefused, match=r"is neither \.csv"):
        read_requests(spark, str(tmp_path / "old.xlsx"))
    (tmp_path / "old.parquet").write_text("no Parquet")
    with pytest.raises(AuditRefused, match="cannot be read as Parquet"):
        read_requests(spark, str(tmp_path / "old.parquet"))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(AuditRefused, match=r"has the columns \(none\)"):
        read_requests(spark, str(tmp_path / "empty.csv"))


@pytest.mark.spark
def test_a_line_that_does_not_fit_is_refused_and_not_quoted(spark: SparkSession, tmp_path: Path) -> None:
    """A number that stands in the wrong place is a person's all the same."""
    from pipeline.backfill import deduplicate, read_requests

    path = write_csv(tmp_path / "old.csv", [{"message_id": "a", **BOOKING}])
    with path.open("a") as file:
        file.write("b,book,A81001,9990000018\n")
    with pytest.raises(AuditRefused, match="has more or fewer fields than its header") as refusal:
        deduplicate(read_requests(spark, str(path)))
    assert "9990000018" not in str(refusal.value)


@pytest.mark.spark
def test_rows_reach_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    """In Spark's own worker processes, each with its part, all rows once."""
    from pipeline.backfill import feed

    rows = spark.createDataFrame([{"message_id": f"m-{number}", "body": "{}"} for number in range(25)])
    assert feed(rows, Recorder(str(tmp_path)), 2) == {"seen": 25}
    seen = [line for path in tmp_path.glob("*.txt") for line in path.read_text().splitlines()]
    assert sorted(seen) == sorted(f"m-{number}" for number in range(25))


@pytest.mark.spark
def test_an_id_that_may_name_a_patient_is_counted_and_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    """Old systems have used NHS numbers for ids; two contents under one of them are a conflict as under any other."""
    ids = ("c", "9990000018", "999 000 0018", "visit of 1 May")
    rows = [{"message_id": name, **BOOKING, "practice": practice} for name in ids for practice in ("A81001", "A81002")]
    path = write_csv(tmp_path / "old.csv", [*rows, {"message_id": "a", **BOOKING}, {}])
    counts = backfill_file(path, lambda _: Recorder(str(tmp_path)), 1e6)
    shown = {name: counts[name] for name in ("read", "empty", "duplicates", "conflicts", "conflicts_not_shown")}
    assert shown == {"read": 10, "empty": 1, "duplicates": 4, "conflicts": ["c"], "conflicts_not_shown": 3}
    assert "0018" not in json.dumps(counts)


class Recorder:
    """Writes what it is given; stands for a service."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, rows: Any) -> dict[str, int]:
        """Write the ids of one partition."""
        names = [row.message_id for row in rows]
        if names:
            (Path(self.folder) / f"{names[0]}.txt").write_text("\n".join(names))
        return {"seen": len(names)}


class Row:
    """A row as an executor gets it."""

    def __init__(self, message_id: str, **changes: str) -> None:
        self.message_id = message_id
        self.body = json.dumps({"message_id": message_id, **BOOKING, **changes})


class FakeQueue:
    """Takes all but the first entry of each first attempt."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.groups: dict[str, str | None] = {}
        self.calls = 0

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Answer for each entry."""
        self.calls += 1
        entries = request["Entries"] if self.calls % 2 == 0 else request["Entries"][1:]
        self.taken += [json.loads(entry["MessageBody"])["message_id"] for entry in entries]
        self.groups |= {
            json.loads(entry["MessageBody"])["message_id"]: entry.get("MessageGroupId") for entry in entries
        }
        return {"Successful": [{"Id": entry["Id"], "MessageId": "sqs"} for entry in entries]}

    def close(self) -> None:
        """Nothing to close."""


class FakeTable:
    """Keeps items by message_id, and refuses a second one as DynamoDB does."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}

    def put_item(self, **request: Any) -> None:
        """Put, on the one condition that is used."""
        from botocore.exceptions import ClientError

        assert request["ConditionExpression"] == "attribute_not_exists(message_id)"
        key = request["Item"]["message_id"]["S"]
        if key in self.items:
            raise ClientError({"Error": {"Code": "ConditionalCheckFailedException"}}, "PutItem")
        self.items[key] = request["Item"]

    def close(self) -> None:
        """Nothing to close."""


def test_the_feeder_sends_every_row_and_keeps_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch's answer does not confirm is sent again."""
    queue, slept = FakeQueue(), list[float]()
    monkeypatch.setattr(Access, "client", lambda *_: queue)
    # The module's own clock: other threads go on with the real one.
    monkeypatch.setattr("oneslot.backfill.time", SimpleNamespace(sleep=slept.append, monotonic=lambda: 0.0))
    Feeder(Access(None, None, None, None), "url", rate=10.0)([Row(f"m-{number}") for number in range(25)])
    assert sorted(queue.taken) == sorted(f"m-{number}" for number in range(25))
    assert slept == [1.0, 2.0]


def test_a_practice_that_is_no_name_of_a_group_does_not_stop_the_feeder(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS refuses a batch for good over such a name; what is wrong with the practice is for the consumer to say."""
    queue = FakeQueue()
    monkeypatch.setattr(Access, "client", lambda *_: queue)
    longest = "A" * 128
    practices = {"plain": "A81001", "umlaut": "Zürich1", "longest": longest, "longer": longest + "A", "spaced": "A 1"}
    rows = [Row(message_id, practice=practice) for message_id, practice in practices.items()]
    Feeder(Access(None, None, None, None), "url", rate=1e6)([*rows, Row("none", practice="")])
    taken = {"plain": "A81001", "longest": longest}
    assert queue.groups == dict.fromkeys([*practices, "none"]) | taken


def test_the_seeder_enters_what_the_consumer_would_recognise(monkeypatch: pytest.MonkeyPatch) -> None:
    """COMPLETE, with the digest of the very content, and never over a row that is there."""
    table = FakeTable()
    monkeypatch.setattr(Access, "client", lambda *_: table)
    seeder = Seeder(Access(None, None, None, None), "ledger", retention_seconds=100, rate=1e6)
    assert seeder([Row("m-1")]) == {"handed_over": 1}
    first = dict(table.items["m-1"])
    # An id with a patient's number, or one that is no id, would never be a duplicate of anything.
    assert seeder([Row("m-1"), Row("m-2"), Row("9990000018"), Row("m 3")]) == {
        "handed_over": 1,
        "already_known": 1,
        "unfit": 2,
    }
    assert table.items["m-1"] == first
    assert set(table.items) == {"m-1", "m-2"}
    assert first["status"] == {"S": "COMPLETE"}
    assert first["payload_hash"] == {"S": payload_hash(parse_body(Row("m-1").body))}
    assert json.loads(first["result"]["S"]) == {
        "outcome": "refused",
        "appointment_id": "m-1",
        "reason": "handled_before_migration",
    }
