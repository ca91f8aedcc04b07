"""The deployed FIFO stack and the real handler: order under killed processes and duplicates."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from exactly_once.dynamodb import from_attributes, to_attributes
from exactly_once.producer import Outgoing, Producer, SendsBatches
from oneslot.local.cloud_assembly import read_stack
from oneslot.local.connection import Connection
from oneslot.local.deletion import delete_messages
from oneslot.local.deployment import deploy
from oneslot.local.installation import install
from oneslot.local.invoker import Answered, HandlerPool, Installation
from oneslot.local.mapping_configuration import read_function
from oneslot.local.sqs_records import event
from oneslot.local.synthesis import synthesise
from tests.consumer_kit import booking, slot_item

GROUPS, EACH = 4, 6


@pytest.mark.embedded_aws
def test_order_within_a_practice_survives_killed_handlers_and_duplicates(account: Connection, tmp_path: Path) -> None:
    context = {"stage": "dev", "queue": "fifo", "lambda_timeout_seconds": 3, "batch_concurrency": 2}
    outputs = deploy(read_stack(synthesise(tmp_path / "assembly", context=context), "Oneslot-dev"), account).outputs
    assert outputs["QueueUrl"].endswith(".fifo")
    sqs, dynamodb = account.sqs(), account.dynamodb()
    practices = [f"A8100{number}" for number in range(GROUPS)]
    for practice in practices:
        for number in range(EACH):
            dynamodb.put_item(
                TableName=outputs["SlotsTableName"], Item=to_attributes(in_the_future(slot_item(number, practice)))
            )
    requests = [(f"{practice}-{number}", practice) for number in range(EACH) for practice in practices]
    producer = Producer(cast("SendsBatches", sqs), outputs["QueueUrl"])
    producer.send([message(request, practice, copy=0) for request, practice in requests])
    producer.send([message(request, practice, copy=1) for request, practice in requests[::2]])
    killed = consume(account, outputs, tmp_path / "run", sqs)
    appointments = [
        from_attributes(item) for item in dynamodb.scan(TableName=outputs["AppointmentsTableName"])["Items"]
    ]
    assert depth(sqs, outputs["DeadLetterQueueUrl"]) == 0
    sqs.close()
    dynamodb.close()
    assert killed > 0
    assert sorted(row["appointment_id"] for row in appointments) == sorted(name for name, _ in requests)
    assert {row["status"] for row in appointments} == {"booked"}
    for practice in practices:
        ours = [row for row in appointments if row["practice"] == practice]
        in_time = [row["appointment_id"] for row in sorted(ours, key=lambda row: row["created"])]
        assert in_time == [f"{practice}-{number}" for number in range(EACH)]


def consume(account: Connection, outputs: dict[str, str], folder: Path, sqs: Any) -> int:
    """Deliver from the queue to the real handler, two batches at a time, until the queue is empty.

    In every third batch of the first nine the handler's process is killed at some moment; returns how many were.
    """
    folder.mkdir()
    functions = account.functions()
    function = read_function(outputs["ConsumerFunctionName"], functions=functions)
    functions.close()
    installation = Installation(
        function, install(function.code_url, folder), account, folder / "handler.log", folder / "handler.errors"
    )
    numbers, chance, pool = itertools.count(), random.Random(7), HandlerPool(installation, size=2)
    pool.warm(2)
    killed: list[int] = []

    def poll(_: int) -> None:
        while depth(sqs, outputs["QueueUrl"]):
            answer = sqs.receive_message(
                QueueUrl=outputs["QueueUrl"],
                MaxNumberOfMessages=4,
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            if not messages:
                continue
            number = next(numbers)
            if number < 9 and number % 3 == 0:
                threading.Timer(chance.uniform(0.005, 0.06), kill_one, [pool, killed]).start()
            outcome = pool.invoke(event(messages, queue_arn=outputs["QueueArn"], region=account.region), request_id="r")
            if isinstance(outcome, Answered):
                failed = {failure["itemIdentifier"] for failure in json.loads(outcome.answer)["batchItemFailures"]}
                receipts = {each["MessageId"]: each["ReceiptHandle"] for each in messages}
                delete_messages(sqs, outputs["QueueUrl"], {name: receipts[name] for name in receipts.keys() - failed})

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(poll, range(2)))
    pool.close()
    return len(killed)


def kill_one(pool: HandlerPool, killed: list[int]) -> None:
    for pid in pool.pids()[:1]:
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def in_the_future(slot: dict[str, Any]) -> dict[str, Any]:
    return {name: value.replace("2026", "2099") if isinstance(value, str) else value for name, value in slot.items()}


def message(request: str, practice: str, *, copy: int) -> Outgoing:
    """A request; a copy is the same one under another deduplication id, as SQS would take it after five minutes."""
    times = {"not_before": "2099-11-23T08:00:00Z", "not_after": "2099-11-24T08:00:00Z"}
    body = booking(request, practice=practice, **times)
    if copy:
        return Outgoing(request, json.dumps(body, indent=copy), practice)
    return Outgoing(request, json.dumps(body), practice)


def depth(sqs: Any, queue_url: str) -> int:
    attributes = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return sum(int(value) for name, value in attributes.items() if name.startswith("ApproximateNumberOfMessages"))
