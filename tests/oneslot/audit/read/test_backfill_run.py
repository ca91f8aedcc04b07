"""`oneslot backfill` against the embedded AWS: a crash, a second run, and the real consumer."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from booking.compose import compose
from booking.configuration import Configuration
from oneslot.audit.layout import to_dynamodb_json
from oneslot.commands.backfill import backfill_file
from oneslot.errors import BadInput, OneslotError
from oneslot.evidence.tables import scan
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.state import LocalState
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.sending.backfill import Access, Feeder, Seeder
from oneslot.target import Target, local_target
from tests.kits.consumer import PRACTICE, booking, record, slot_item
from tests.kits.moto_stack import invoke

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.embedded_aws]
FIELDS = [name for name in booking() if name != "message_id"]
REQUESTS = 30


@pytest.fixture
def target(
    account: Connection, synthesised: SynthesisedStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Target:
    """A stack with a few free slots, which the command line takes for the running local stack."""
    state = LocalState.of(deploy(synthesised, account), tmp_path / "consumer.jsonl")
    state.write(tmp_path)
    monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
    made = local_target(state, tmp_path)
    for number in range(REQUESTS // 2):
        made.dynamodb.put_item(TableName=made.outputs.tables["slots"], Item=to_dynamodb_json(slot_item(number)))
    return made


@dataclass(frozen=True)
class Crashing:
    """A handler that works on a few rows and then raises, as if its executor died."""

    inner: Feeder | Seeder
    rows: int

    def __call__(self, rows: Iterable[Any]) -> Counter[str]:
        """Hand over the first rows of a partition."""
        taken = [row for row, _ in zip(rows, range(self.rows), strict=False)]
        self.inner(taken)
        raise RuntimeError("the executor was lost")


def write_csv(path: Path, names: Iterable[str]) -> Path:
    """Write bookings with these ids, the first twice, and an empty row."""
    rows = [{**booking(name), "remark": "old"} for name in names]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["message_id", *FIELDS, "remark"])
        writer.writeheader()
        writer.writerows([*rows, rows[0], {}])
    return path


def consume(target: Target) -> list[Delivery]:
    """Let the real consumer drain the queue, and return its log."""
    outputs, log = target.outputs, list[Delivery]()
    configuration = Configuration(
        ledger_table=outputs.ledger_table_name,
        slots_table=outputs.tables["slots"],
        appointments_table=outputs.tables["appointments"],
        queue_url=outputs.queue_url,
        dead_letter_queue_url=outputs.dead_letter_queue_url,
        ledger_retention_seconds=86_400,
        batch_concurrency=1,
        candidate_slots=20,
        content_based_deduplication=False,
    )
    dynamodb: Any = target.dynamodb
    sqs: Any = target.sqs
    consumer = compose(configuration, dynamodb, sqs, log.append)
    while messages := sqs.receive_message(QueueUrl=outputs.queue_url, MaxNumberOfMessages=10).get("Messages", []):
        answer = consumer({"Records": [record(message["Body"]) for message in messages]}, OneMinute())
        assert answer["batchItemFailures"] == []
        for message in messages:
            sqs.delete_message(QueueUrl=outputs.queue_url, ReceiptHandle=message["ReceiptHandle"])
    return log


class OneMinute:
    """A Lambda context, as far as the consumer reads it."""

    aws_request_id = "r"

    def get_remaining_time_in_millis(self) -> int:
        """Return one minute."""
        return 60_000


def rows(target: Target) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the ledger's rows and the appointments."""
    outputs = target.outputs
    return (
        list(scan(target.dynamodb, outputs.ledger_table_name, LEDGER_ATTRIBUTES)),
        list(scan(target.dynamodb, outputs.tables["appointments"], ())),
    )


def test_fed_file_counts_once_when_a_run_crashed(spark: SparkSession, target: Target, tmp_path: Path) -> None:
    """The second run sends again what the first sent; each request has one appointment."""
    names = [f"old-{number:03d}" for number in range(REQUESTS)]
    file = write_csv(tmp_path / "old.csv", names)
    access, queue_url = Access(target.local.connection if target.local else None), target.outputs.queue_url
    with pytest.raises(OneslotError, match=r"the executor was lost\. Run the same command again"):
        backfill_file(file, lambda rate: Crashing(Feeder(access, queue_url, rate), 10), 1e6)
    done = invoke("backfill", str(file), "--rate", "100000", "--json")
    assert done.exit_code == 0, done.output
    counts = json.loads(done.stdout)
    assert counts == {
        "read": REQUESTS + 2,
        "empty": 1,
        "duplicates": 1,
        "conflicts": [],
        "conflicts_not_shown": 0,
        "ignored_columns": ["remark"],
        "handed_over": REQUESTS,
        "already_known": 0,
        "in_progress": 0,
        "known_with_other_content": 0,
        "unfit": 0,
    }
    log = consume(target)
    assert len(log) > REQUESTS, "the crash left some in the queue, which were sent again"
    outcomes = Counter(delivery.outcome for delivery in log)
    assert outcomes == {"booked": REQUESTS // 2, "waitlist": REQUESTS // 2, "duplicate": len(log) - REQUESTS}
    ledger, appointments = rows(target)
    assert sorted(row["message_id"] for row in ledger) == names
    assert sorted(row["appointment_id"] for row in appointments) == names


def test_seeded_file_is_not_processed_when_it_comes_again(spark: SparkSession, target: Target, tmp_path: Path) -> None:
    """After a migration the old requests come through the queue: each is a duplicate, and takes no slot."""
    bodies = [booking(f"old-{number:03d}") for number in range(REQUESTS)]
    spark.createDataFrame([*bodies, booking("wrong", nhs_number="9990000019")]).write.parquet(
        str(tmp_path / "old.parquet")
    )
    access, table = Access(target.local.connection if target.local else None), target.outputs.ledger_table_name
    with pytest.raises(OneslotError, match="the executor was lost"):
        backfill_file(tmp_path / "old.parquet", lambda rate: Crashing(Seeder(access, table, 86_400, rate), 5), 1e6)
    before = {row["message_id"]: row for row in rows(target)[0]}
    assert 0 < len(before) < REQUESTS
    done = invoke("backfill", str(tmp_path / "old.parquet"), "--into", "ledger", "--rate", "100000", "--json")
    assert done.exit_code == 1, "one row is not fit to be a request"
    counts = json.loads(done.stdout)
    # The other partition may have written more rows after `before` was read.
    assert len(before) <= counts["already_known"] < REQUESTS
    assert (counts["already_known"] + counts["handed_over"], counts["unfit"]) == (REQUESTS, 1)
    ledger, appointments = rows(target)
    assert {row["message_id"] for row in ledger} == {body["message_id"] for body in bodies}
    assert all(row["status"] == "COMPLETE" for row in ledger)
    assert [row for row in ledger if row["message_id"] in before] == [
        before[row["message_id"]] for row in ledger if row["message_id"] in before
    ], "existing rows are unchanged"
    new = booking("new", practice=PRACTICE)
    for body in [*bodies, new]:
        target.sqs.send_message(QueueUrl=target.outputs.queue_url, MessageBody=json.dumps(body))
    outcomes = Counter(delivery.outcome for delivery in consume(target))
    assert outcomes == {"duplicate": REQUESTS, "booked": 1}
    assert [row["appointment_id"] for row in rows(target)[1]] == ["new"]
    assert appointments == []


def test_backfill_refuses_a_file_without_requests(spark: SparkSession, target: Target, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(",".join(["message_id", *FIELDS]) + "\n")
    with pytest.raises(BadInput, match="holds no requests"):
        backfill_file(tmp_path / "old.csv", lambda _: dict, 1.0)
