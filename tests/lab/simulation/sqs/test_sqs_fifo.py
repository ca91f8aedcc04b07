"""FIFO queues in the in-memory SQS, as AWS documents them: groups, deduplication, attempts and receipts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.explorer.port_clients import refusal


def send(queues: Queues, group: str, *bodies: str) -> list[str]:
    return queues.send(*bodies, url=queues.fifo, MessageGroupId=group)


def receive(queues: Queues, count: int = 10, **more: Any) -> list[dict[str, Any]]:
    return queues.receive(count, queues.fifo, **more)


def code(call: Any) -> str:
    return str(refusal(call)["Error"]["Code"])


def test_group_waits_while_one_of_it_is_in_flight(queues: Queues) -> None:
    send(queues, "a", "a1", "a2", "a3")
    send(queues, "b", "b1")
    first, second = receive(queues, 2)
    assert (first["Body"], second["Body"]) == ("a1", "a2")
    assert queues.bodies(url=queues.fifo) == ["b1"]
    queues.delete(first, queues.fifo)
    assert queues.bodies(url=queues.fifo) == []
    queues.delete(second, queues.fifo)
    assert queues.bodies(url=queues.fifo) == ["a3"]


def test_group_goes_on_in_order_when_a_message_returns(queues: Queues) -> None:
    send(queues, "a", "a1", "a2", "a3")
    first, second = receive(queues, 2)
    queues.show(second, queues.fifo)
    assert receive(queues) == []
    queues.show(first, queues.fifo)
    again = receive(queues)
    assert [message["Body"] for message in again] == ["a1", "a2", "a3"]
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in again] == ["2", "2", "1"]


def test_message_carries_group_token_and_number(queues: Queues) -> None:
    numbers = [
        queues.client.send_message(
            QueueUrl=queues.fifo, MessageBody=body, MessageGroupId="a", MessageDeduplicationId=f"token-{body}"
        )["SequenceNumber"]
        for body in "xy"
    ]
    found = [message["Attributes"] for message in receive(queues)]
    assert [each["MessageGroupId"] for each in found] == ["a", "a"]
    assert [each["MessageDeduplicationId"] for each in found] == ["token-x", "token-y"]
    assert [each["SequenceNumber"] for each in found] == numbers == sorted(numbers, key=int)


def test_second_send_is_accepted_and_dropped(queues: Queues) -> None:
    token = {"url": queues.fifo, "MessageGroupId": "a", "MessageDeduplicationId": "token"}
    (first,) = queues.send("body", **token)
    (message,) = receive(queues)
    queues.delete(message, queues.fifo)
    (second,) = queues.send("other body", **token)
    assert second == first
    assert receive(queues) == []


def test_group_and_token_are_required(queues: Queues) -> None:
    assert code(lambda: queues.send("body", url=queues.fifo)) == "MissingParameter"
    without_token = {"url": queues.fifo_dead, "MessageGroupId": "a"}
    assert code(lambda: queues.send("body", **without_token)) == "InvalidParameterValue"


def test_attempt_returns_the_same_when_repeated(queues: Queues) -> None:
    send(queues, "a", "a1", "a2")
    send(queues, "b", "b1")
    first = receive(queues, 2, ReceiveRequestAttemptId="attempt")
    assert receive(queues, 2, ReceiveRequestAttemptId="attempt") == first


def test_attempt_is_new_when_a_message_was_deleted(queues: Queues) -> None:
    send(queues, "a", "a1")
    send(queues, "b", "b1")
    (first,) = receive(queues, 1, ReceiveRequestAttemptId="attempt")
    queues.delete(first, queues.fifo)
    (second,) = receive(queues, 1, ReceiveRequestAttemptId="attempt")
    assert second["Body"] == "b1"


@pytest.mark.parametrize("received_again", [False, True])
def test_expired_receipt_is_refused(queues: Queues, received_again: bool) -> None:
    send(queues, "a", "body")
    (message,) = receive(queues)
    queues.show(message, queues.fifo)
    if received_again:
        receive(queues)
    assert code(lambda: queues.delete(message, queues.fifo)) == "InvalidParameterValue"
    assert code(lambda: queues.show(message, queues.fifo)) == "InvalidParameterValue"


def test_redrive_policy_moves_one_message_of_a_group(queues: Queues) -> None:
    poison, _ = send(queues, "a", "a1", "a2")
    for _ in range(2):
        (message,) = receive(queues, 1)
        queues.show(message, queues.fifo)
    assert queues.bodies(url=queues.fifo) == ["a2"]
    (dead,) = queues.receive(url=queues.fifo_dead)
    assert dead["MessageId"] == poison
    assert dead["Attributes"]["MessageGroupId"] == "a"


def test_dead_letter_has_its_id_as_token(queues: Queues) -> None:
    (message_id,) = send(queues, "a", "body")
    for _ in range(2):
        queues.show(receive(queues)[0], queues.fifo)
    receive(queues)
    (dead,) = queues.receive(url=queues.fifo_dead)
    assert dead["Attributes"]["MessageDeduplicationId"] == message_id
