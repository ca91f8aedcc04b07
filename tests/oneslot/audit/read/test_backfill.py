"""A historical file becomes each request once, and handing it over twice counts once."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.audit.errors import AuditRefused
from oneslot.commands.backfill import backfill_file
from oneslot.runtime.identity import parse_body, payload_hash
from oneslot.runtime.surroundings import Surroundings
from oneslot.sending.backfill import Access, Feeder, Seeder

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
    """Write a file as a hospital would export it."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["message_id", *BOOKING, "appointment_id"])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.slow
@pytest.mark.spark
def test_backfill_reads_each_request_once(spark: SparkSession, tmp_path: Path) -> None:
    """By id, or by content where there is no id. An id with two contents is a conflict."""
    from oneslot.audit.read.backfill import deduplicate
    from oneslot.audit.read.request_files import open_file

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
        # Left behind by a spreadsheet: empty rows, and a row with only an id.
        {},
        {},
        {"message_id": "f"},
    ]
    found = deduplicate(open_file(spark, str(write_csv(tmp_path / "old.csv", rows))).requests)
    bodies = {row.message_id: json.loads(row.body) for row in found.rows.collect()}
    assert (found.read, found.empty, found.duplicates, found.first_conflicts) == (12, 2, 3, ["c"])
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
    assert content == f"content-{digest}", "stable across versions, because a file may be fed again after an upgrade"
    spark.createDataFrame([{"message_id": "a", **BOOKING}]).write.parquet(str(tmp_path / "old.parquet"))
    again = deduplicate(open_file(spark, str(tmp_path / "old.parquet")).requests)
    assert [row.body for row in again.rows.collect()] == [
        row.body for row in found.rows.where("message_id = 'a'").collect()
    ]


@pytest.mark.slow
@pytest.mark.spark
def test_file_is_refused_when_it_is_not_a_request_file(spark: SparkSession, tmp_path: Path) -> None:
    """The sentence names what is missing."""
    from oneslot.audit.read.request_files import open_file

    (tmp_path / "old.csv").write_text("name\nx\n")
    with pytest.raises(
        AuditRefused, match=r"has no column `type`\. A request needs `type` and, for bookings, practice"
    ):
        open_file(spark, str(tmp_path / "old.csv"))
    with pytest.raises(AuditRefused, match=r"is neither \.csv"):
        open_file(spark, str(tmp_path / "old.xlsx"))
    (tmp_path / "old.parquet").write_text("no Parquet")
    with pytest.raises(AuditRefused, match="cannot be read as Parquet"):
        open_file(spark, str(tmp_path / "old.parquet"))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(AuditRefused, match="has no column `type`"):
        open_file(spark, str(tmp_path / "empty.csv"))


@pytest.mark.slow
@pytest.mark.spark
def test_feed_hands_each_row_to_one_executor(spark: SparkSession, tmp_path: Path) -> None:
    """In Spark's own worker processes."""
    from oneslot.audit.read.backfill import feed

    rows = spark.createDataFrame([{"message_id": f"m-{number}", "body": "{}"} for number in range(25)])
    assert feed(rows, Recorder(str(tmp_path)), 2) == {"seen": 25}
    seen = [line for path in tmp_path.glob("*.txt") for line in path.read_text().splitlines()]
    assert sorted(seen) == sorted(f"m-{number}" for number in range(25))


@pytest.mark.slow
@pytest.mark.spark
def test_conflict_is_only_counted_when_its_id_may_be_a_patient(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old systems used NHS numbers as ids."""
    ids = ("c", "9990000018", "999 000 0018", "visit of 1 May")
    rows = [{"message_id": name, **BOOKING, "practice": practice} for name in ids for practice in ("A81001", "A81002")]
    path = write_csv(tmp_path / "old.csv", [*rows, {"message_id": "a", **BOOKING}, {}])
    counts = backfill_file(path, lambda _: Recorder(str(tmp_path)), 1e6)
    shown = {name: counts[name] for name in ("read", "empty", "duplicates", "conflicts", "conflicts_not_shown")}
    assert shown == {"read": 10, "empty": 1, "duplicates": 4, "conflicts": ["c"], "conflicts_not_shown": 3}
    assert "0018" not in json.dumps(counts)
    monkeypatch.setattr("oneslot.audit.read.backfill.CONFLICTS_NAMED", 2)
    named = backfill_file(path, lambda _: Recorder(str(tmp_path)), 1e6)
    assert (named["conflicts"], named["conflicts_not_shown"]) == ([], 4), "those named are the first in order"


class Recorder:
    """A stand-in for a service that writes the ids of each partition to a file."""

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
        self.body = json.dumps({"message_id": message_id, **BOOKING, **changes}, ensure_ascii=False)


class FakeQueue:
    """A queue that rejects the first entry of every other batch."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.bodies = set[str]()
        self.groups: dict[str, str | None] = {}
        self.calls = 0
        self.ascii = True
        self.on_call: Callable[[list[Any]], None] = lambda _: None

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Return an answer for each entry."""
        self.calls += 1
        self.on_call([entry for entry in request["Entries"] if entry["MessageBody"] not in self.bodies])
        self.bodies |= {entry["MessageBody"] for entry in request["Entries"]}
        self.ascii = self.ascii and all(entry["MessageBody"].isascii() for entry in request["Entries"])
        entries = request["Entries"] if self.calls % 2 == 0 else request["Entries"][1:]
        self.taken += [json.loads(entry["MessageBody"])["message_id"] for entry in entries]
        self.groups |= {
            json.loads(entry["MessageBody"])["message_id"]: entry.get("MessageGroupId") for entry in entries
        }
        return {"Successful": [{"Id": entry["Id"], "MessageId": "sqs"} for entry in entries]}

    def close(self) -> None:
        """Do nothing."""


class FakeTable:
    """A table that rejects a second item with the same message_id, as DynamoDB does."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}

    def put_item(self, **request: Any) -> None:
        """Put an item under the one condition in use."""
        from botocore.exceptions import ClientError

        assert request["ConditionExpression"] == "attribute_not_exists(message_id)"
        key = request["Item"]["message_id"]["S"]
        if key in self.items:
            assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
            refusal: Any = {"Error": {"Code": "ConditionalCheckFailedException"}, "Item": self.items[key]}
            raise ClientError(refusal, "PutItem")
        self.items[key] = request["Item"]

    def close(self) -> None:
        """Do nothing."""


class Clock:
    """A clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        assert seconds > 0
        self.now += seconds

    @property
    def surroundings(self) -> Surroundings:
        """Return surroundings with this steady clock."""
        return Surroundings(steady=self.monotonic, sleep=self.sleep)


@pytest.mark.parametrize("rate", [3.0, 250.0])
def test_feeder_sends_every_row_at_its_rate(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    """At no time are more rows sent than due, apart from one batch. Unconfirmed rows are sent again."""
    queue, clock = FakeQueue(), Clock()
    monkeypatch.setattr(Access, "client", lambda *_: queue)
    queue.on_call = lambda entries: ahead.append(
        len(set(queue.taken)) + len(entries) - rate * (clock.now - 1_000.0 + 0.1)
    )
    ahead = list[float]()
    Feeder(Access(None), "url", rate, clock.surroundings)([Row(f"m-{number}") for number in range(250)])
    assert sorted(queue.taken) == sorted(f"m-{number}" for number in range(250))
    assert max(ahead) <= 1.01
    assert clock.now - 1_000.0 == pytest.approx(250 / rate, abs=2.5 / rate + 0.11)


def test_feeder_keeps_its_rate_after_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that did not answer for a minute does not get that minute's messages at once."""
    queue, clock, times = FakeQueue(), Clock(), list[float]()
    monkeypatch.setattr(Access, "client", lambda *_: queue)

    def stall(entries: list[Any]) -> None:
        if queue.calls == 1:
            clock.now += 60.0
        times.extend(clock.now for _ in entries)

    queue.on_call = stall
    Feeder(Access(None), "url", 100.0, clock.surroundings)([Row(f"m-{number}") for number in range(1_000)])
    assert sum(time <= 1_060.0 for time in times) <= 100 + 3 * 10
    # Apart from the first batch, the last, and one second's arrears, each row takes its hundredth of a second.
    assert clock.now - 1_060.0 == pytest.approx(980 / 100 - 1.0, abs=0.05)


def test_feeder_skips_a_row_that_sqs_never_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a row would stop every run of the command at the same place."""
    queue, sizes = FakeQueue(), list[int]()
    monkeypatch.setattr(Access, "client", lambda *_: queue)
    queue.on_call = lambda entries: sizes.append(sum(len(entry["MessageBody"].encode()) for entry in entries))
    rows = [Row("huge", service_type="x" * 1_048_576), Row("sign", service_type="\ufffe\u00e9")]
    wide = [Row(f"wide-{number}", service_type="x" * 300_000) for number in range(9)]
    counts = Feeder(Access(None), "url", rate=1e6)([*rows, *wide])
    assert counts == {"handed_over": 10, "unfit": 1}
    assert sorted(queue.taken) == sorted(["sign", *(f"wide-{number}" for number in range(9))])
    assert max(sizes) <= 1_048_576
    assert queue.ascii, "every character outside ASCII is a JSON escape"


def test_feeder_sends_without_group_when_practice_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS rejects a batch with an invalid group name; the consumer judges the practice."""
    queue = FakeQueue()
    monkeypatch.setattr(Access, "client", lambda *_: queue)
    longest = "A" * 128
    practices = {"plain": "A81001", "umlaut": "Zürich1", "longest": longest, "longer": longest + "A", "spaced": "A 1"}
    rows = [Row(message_id, practice=practice) for message_id, practice in practices.items()]
    Feeder(Access(None), "url", rate=1e6)([*rows, Row("none", practice="")])
    taken = {"plain": "A81001", "longest": longest}
    assert queue.groups == dict.fromkeys([*practices, "none"]) | taken


def test_seeder_enters_rows_that_the_consumer_recognises(monkeypatch: pytest.MonkeyPatch) -> None:
    """COMPLETE, with the digest of the content, and never over an existing row."""
    table = FakeTable()
    monkeypatch.setattr(Access, "client", lambda *_: table)
    seeder = Seeder(Access(None), "ledger", retention_seconds=100, rate=1e6)
    assert seeder([Row("m-1")]) == {"handed_over": 1}
    first = dict(table.items["m-1"])
    # The consumer rejects an invalid id or a patient's number, so such a row could never match a message.
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


def test_seeder_counts_rows_that_differ_in_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unfinished row or another content does not answer the old request."""
    table = FakeTable()
    monkeypatch.setattr(Access, "client", lambda *_: table)
    seeder = Seeder(Access(None), "ledger", retention_seconds=100, rate=1e6)
    names = ("done", "begun", "other")
    seeder([Row(name) for name in names])
    table.items["begun"]["status"] = {"S": "IN_PROGRESS"}
    table.items["other"]["payload_hash"] = {"S": "0" * 64}
    before = json.dumps(table.items)
    counts = seeder([Row(name) for name in names])
    assert counts == {"handed_over": 0, "already_known": 1, "in_progress": 1, "known_with_other_content": 1}
    assert json.dumps(table.items) == before
