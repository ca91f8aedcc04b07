"""The in-memory SQS where AWS leaves a choice: old receipts, copies, deleted messages that return, and samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.simulation.sqs.service import SQSService
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.explorer.port_clients import Clock


def queues_of(seed: int) -> tuple[SQSService, Queues]:
    service = SQSService(Clock(), Random(seed))
    return service, Queues(service)


def receive_twice(queues: Queues) -> tuple[dict[str, Any], dict[str, Any]]:
    queues.send("body", url=queues.dead)
    (first,) = queues.receive(url=queues.dead, VisibilityTimeout=0)
    (second,) = queues.receive(url=queues.dead)
    return first, second


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "succeeds"


def test_old_receipt_deletes_or_not() -> None:
    fates = set()
    for seed in range(60):
        service, queues = queues_of(seed)
        first, _ = receive_twice(queues)
        fate = outcome(partial(queues.delete, first, queues.dead))
        fates.add((fate, len(service.messages(queues.dead))))
    assert fates == {("succeeds", 0), ("succeeds", 1), ("InvalidParameterValue", 1)}


def test_old_receipt_changes_visibility_or_not() -> None:
    fates = set()
    for seed in range(60):
        _, queues = queues_of(seed)
        first, _ = receive_twice(queues)
        fate = outcome(partial(queues.show, first, queues.dead))
        fates.add((fate, len(queues.receive(url=queues.dead))))
    assert fates == {("succeeds", 1), ("InvalidParameterValue", 0)}


def test_newest_receipt_always_deletes() -> None:
    for seed in range(20):
        service, queues = queues_of(seed)
        _, second = receive_twice(queues)
        queues.delete(second, queues.dead)
        assert service.messages(queues.dead) == []


def test_copy_is_delivered_while_the_first_is_in_flight() -> None:
    service, queues = queues_of(1)
    assert service.deliver_again(queues.url) is None
    (message_id,) = queues.send("body")
    (first,) = queues.receive()
    assert service.deliver_again(queues.url) == message_id
    (second,) = queues.receive()
    assert second["MessageId"] == message_id
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert service.deliver_again(queues.fifo) is None


def test_deleted_message_returns() -> None:
    service, queues = queues_of(1)
    (message_id,) = queues.send("body")
    queues.delete(queues.receive()[0])
    assert service.undelete(queues.url) == message_id
    assert service.undelete(queues.url) is None
    (again,) = queues.receive()
    assert (again["MessageId"], again["Attributes"]["ApproximateReceiveCount"]) == (message_id, "2")
    queues.delete(again)
    assert queues.receive() == []


def test_short_poll_samples_and_long_poll_does_not() -> None:
    service, queues = queues_of(1)
    queues.send(*"abcdef", url=queues.dead)
    service.missing = 0.5
    samples = {tuple(sorted(queues.bodies(url=queues.dead, VisibilityTimeout=0))) for _ in range(60)}
    assert len(samples) > 20
    assert {len(sample) for sample in samples} >= {0, 1, 2, 3, 4, 5}
    assert len(queues.receive(url=queues.dead, WaitTimeSeconds=1)) == 6


def test_same_calls_give_the_same_answers() -> None:
    def run() -> list[Any]:
        service, queues = queues_of(7)
        service.missing = 0.3
        queues.send(*"abcdefghij")
        seen: list[Any] = []
        for _ in range(30):
            messages = queues.receive(3)
            seen.append([message["ReceiptHandle"] for message in messages])
            seen.append(service.deliver_again(queues.url))
            seen.extend(outcome(partial(queues.delete, message)) for message in messages)
            seen.append(service.undelete(queues.url))
        return seen

    assert run() == run()


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("send_message", {"MessageBody": "body", "DelaySeconds": 1}),
        ("receive_message", {"Unknown": 1}),
        ("delete_message", {"ReceiptHandle": "x", "Unknown": 1}),
    ],
)
def test_stand_in_refuses_an_unknown_parameter(call: str, more: dict[str, Any]) -> None:
    _, queues = queues_of(1)
    with pytest.raises(UnsupportedRequest):
        getattr(queues.client, call)(QueueUrl=queues.url, **more)
