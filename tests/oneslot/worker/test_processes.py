"""Workers on the embedded AWS: SIGKILL and restart, SIGTERM, a handler that hangs."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import boto3
import pytest

from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment
from oneslot.operator.commands.worker.worker import worker
from oneslot.runtime.sqs.batches import SendsBatches
from oneslot.runtime.sqs.producer import Outgoing, Producer
from oneslot.runtime.values import from_attributes, to_attributes
from tests.kits.consumer import booking, create_table, slot_item
from tests.kits.local_mapping import wait_for

pytestmark = pytest.mark.embedded_aws
slow = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


class Place:
    """A queue, a ledger and a table of finished work, in an account of the test's own."""

    def __init__(self, account: Connection) -> None:
        self.account = account
        self.sqs, self.dynamodb = account.sqs(), account.dynamodb()
        self.queue_url = self.sqs.create_queue(QueueName="work", Attributes={"VisibilityTimeout": "2"})["QueueUrl"]
        for name, key in (("ledger", "message_id"), ("done", "done_id")):
            create_table(self.dynamodb, name, key)

    def close(self) -> None:
        self.sqs.close()
        self.dynamodb.close()

    def send(self, count: int) -> list[str]:
        names = [f"job-{number}" for number in range(count)]
        producer = Producer(cast("SendsBatches", self.sqs), self.queue_url)
        producer.send([Outgoing(name, json.dumps({"message_id": name})) for name in names])
        return names

    def rows(self, table: str) -> list[dict[str, Any]]:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=table)
        return [from_attributes(item) for page in pages for item in page["Items"]]

    def left(self) -> int:
        return sum(self._numbers().values())

    def hidden(self) -> int:
        return self._numbers()["ApproximateNumberOfMessagesNotVisible"]

    def _numbers(self) -> dict[str, int]:
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["All"])["Attributes"]
        return {name: int(value) for name, value in attributes.items() if name.startswith("ApproximateNumberOf")}

    def all_done_once(self, names: list[str]) -> None:
        """Nothing lost, nothing twice: one row for each, and every request complete."""
        assert sorted(row["done_id"] for row in self.rows("done")) == sorted(names)
        assert {row["message_id"]: row["status"] for row in self.rows("ledger")} == dict.fromkeys(names, "COMPLETE")


@pytest.fixture
def place(account: Connection) -> Any:
    made = Place(account)
    yield made
    made.close()


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore the signal handlers that the command replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def use_account(monkeypatch: pytest.MonkeyPatch, account: Connection, endpoint_url: str) -> None:
    """Set the environment of a command that uses this account."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first use
    for name, value in replace(account, endpoint_url=endpoint_url).variables.items():
        monkeypatch.setenv(name, value)


PROGRAM = """
    import boto3, itertools, json, os, signal, time
    from botocore.config import Config
    from oneslot import Busy, DynamoDBLedger, Effects, JsonMessage, Put, attempt

    client = boto3.client("dynamodb", config=Config(max_pool_connections=16))
    ledger = DynamoDBLedger(client, "ledger", retention_seconds=None, tables={"done": "done"})
    numbers, last = itertools.count(1), int(os.environ["KILLED_AT"])

    def decide(message):
        time.sleep(float(os.environ["WORK_SECONDS"]))
        return Effects({}, (Put("done", {"done_id": message.message_id}, key="done_id"),))

    def handle(event, context):
        (record,) = event["Records"]
        message = JsonMessage(json.loads(record["body"])["message_id"], "content")
        deadline = ledger.surroundings.now_ms() + context.get_remaining_time_in_millis()
        ended = attempt(ledger, message, decide, deadline)
        if isinstance(ended, Busy):
            return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
        if next(numbers) == last:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def start(
    folder: Path,
    place: Place,
    *options: str,
    threads: int,
    seconds: int,
    work: float = 0.15,
    killed_at: int | None = None,
    program: str = PROGRAM,
) -> subprocess.Popen[str]:
    """Start `oneslot worker` with this program in a process of its own. seconds: its visibility and its buffer.

    killed_at: the number of the message at which it kills itself, after the commit and before the deletion.
    """
    (folder / "slow_work.py").write_text(textwrap.dedent(program))
    environment = {
        **os.environ,
        **place.account.variables,
        "WORK_SECONDS": str(work),
        "KILLED_AT": str(killed_at or 0),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'lambda_src'}",
    }
    numbers = {"--threads": threads, "--visibility": seconds, "--buffer": seconds, "--wait": 1}
    common = ["--handler", "slow_work:handle", "--queue-url", place.queue_url]
    common += [text for name, value in numbers.items() for text in (name, str(value))]
    common += options
    return subprocess.Popen(
        [sys.executable, "-c", "from oneslot.operator.commands.worker.worker import worker; worker()", *common],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@slow
def test_restart_after_sigkill_loses_and_doubles_nothing(place: Place, tmp_path: Path) -> None:
    names = place.send(60)
    for killed_at in (10, 15):  # in the middle, twice
        process = start(tmp_path, place, threads=8, seconds=1, killed_at=killed_at)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, errors
        assert place.left() > 0
    process = start(tmp_path, place, threads=8, seconds=1)
    wait_for(lambda: place.left() == 0 or process.poll() is not None, seconds=300)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    place.all_done_once(names)
    redelivered = [line for line in map(json.loads, out.splitlines()) if line.get("receive_count", 1) > 1]
    assert redelivered  # what the killed ones had in hand


@slow
def test_killed_workers_message_is_free_after_one_lease_when_its_work_is_long(place: Place, tmp_path: Path) -> None:
    """Its lease of two seconds is renewed for as long as it works, and not to the limit of 900 seconds."""
    (name,) = place.send(1)
    first = start(tmp_path, place, threads=2, seconds=1, work=600)
    second = None
    try:
        wait_for(lambda: bool(place.rows("ledger")) or first.poll() is not None)
        lease = place.rows("ledger")[0]["lease_until"]
        second = start(tmp_path, place, threads=2, seconds=1, work=5)
        wait_for(lambda: place.rows("ledger")[0]["lease_until"] > lease + 6_000)
        first.kill()
        [row] = place.rows("ledger")
        assert (row["consumption_count"], row["status"]) == (1, "IN_PROGRESS")
        assert row["lease_until"] - row["updated"] <= 2_000
        wait_for(lambda: place.left() == 0 or second.poll() is not None)
        second.send_signal(signal.SIGTERM)
        _, errors = second.communicate(timeout=120)
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
        first.communicate()
    assert second.returncode == 0, errors
    place.all_done_once([name])
    assert place.rows("ledger")[0]["consumption_count"] == 2


HANGS = """
    import pathlib, threading
    from concurrent.futures import ThreadPoolExecutor

    def handle(event, context):
        pathlib.Path("at work").touch()
        ThreadPoolExecutor().submit(threading.Event().wait).result()
"""


@slow
@pytest.mark.parametrize(("limit", "status"), [("1", 1), ("600", 0)])
def test_worker_ends_when_a_handler_hangs_in_its_own_thread(
    place: Place, tmp_path: Path, limit: str, status: int
) -> None:
    """It ends with status 1 over its limit, and with status 0 by SIGTERM before that, and releases the message."""
    place.send(1)
    process = start(tmp_path, place, "--limit", limit, "--grace", "2", threads=1, seconds=60, program=HANGS)
    if status == 0:
        wait_for(lambda: (tmp_path / "at work").exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
    try:
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == status, errors
    assert json.loads(out.splitlines()[-1])["event"] == "stopped"
    assert (place.left(), place.hidden()) == (1, 0)


@slow
def test_second_signal_ends_the_grace_time_after_one_second(place: Place, tmp_path: Path) -> None:
    """A program such as `timeout` signals the process and then its group, which is one wish."""
    place.send(1)
    process = start(tmp_path, place, "--grace", "10000", threads=1, seconds=60, program=HANGS)
    try:
        wait_for(lambda: (tmp_path / "at work").exists() or process.poll() is not None)
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["released"]) == ("stopped", 1)
    assert (place.left(), place.hidden()) == (1, 0)


def test_worker_runs_the_stacks_consumer_by_its_environment(
    signals: None, deployed: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It books from the deployed stack's queue with the function's configuration, without Lambda."""
    account, outputs = deployed.connection, deployed.outputs
    functions, sqs, dynamodb = account.functions(), account.sqs(), account.dynamodb()
    variables = functions.get_function_configuration(FunctionName=outputs["ConsumerFunctionName"])["Environment"]
    for name, value in variables["Variables"].items():
        monkeypatch.setenv(name, value)
    use_account(monkeypatch, account, account.endpoint_url)
    practice = "W0RKER"
    dynamodb.put_item(TableName=outputs["SlotsTableName"], Item=to_attributes(slot_item(0, practice)))
    body = booking("worker-1", practice=practice)

    def booked() -> bool:
        key = to_attributes({"message_id": body["message_id"]})
        row = dynamodb.get_item(TableName=outputs["LedgerTableName"], Key=key, ConsistentRead=True).get("Item")
        return row is not None and from_attributes(row)["status"] == "COMPLETE"

    def send_twice_and_stop_when_empty() -> None:
        def empty() -> bool:
            found = sqs.get_queue_attributes(QueueUrl=outputs["QueueUrl"], AttributeNames=["All"])["Attributes"]
            return all(int(found[name]) == 0 for name in found if name.startswith("ApproximateNumberOf"))

        try:
            sqs.send_message(QueueUrl=outputs["QueueUrl"], MessageBody=json.dumps(body))
            wait_for(booked)
            sqs.send_message(QueueUrl=outputs["QueueUrl"], MessageBody=json.dumps(body))
            wait_for(empty, seconds=300)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=send_twice_and_stop_when_empty)
    stopper.start()
    status = worker.main(["--threads", "2", "--wait", "1"], standalone_mode=False)
    stopper.join()
    outcomes = [line.outcome for line in caplog.records if line.message == "delivery"]  # type: ignore[attr-defined]
    assert (status, outcomes) == (0, ["booked", "duplicate"])
    for client in (functions, sqs, dynamodb):
        client.close()
