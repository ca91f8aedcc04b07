"""The in-memory SQS where moto differs or has no clock: time, choices that AWS leaves open, receipts and FIFO queues."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lab.simulation.sqs.service import SQSService
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.dynamodb_in_memory.clock import Clock, refusal

SECOND, DAY = 1000, 86_400_000
TOKEN: dict[str, Any] = {"MessageGroupId": "a", "MessageDeduplicationId": "token"}


class Timed(Queues):
    """The queues, with a clock."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.service = SQSService(self.clock, Random(seed))
        super().__init__(self.service)


@pytest.fixture
def queues() -> Timed:
    return Timed()


def code(call: Any) -> str:
    return str(refusal(call)["Error"]["Code"])


def send(queues: Timed, group: str, *bodies: str) -> list[str]:
    return queues.send(*bodies, url=queues.fifo, MessageGroupId=group)


def receive_twice(queues: Timed) -> tuple[dict[str, Any], dict[str, Any]]:
    queues.send("body", url=queues.dead)
    (first,) = queues.receive(url=queues.dead, VisibilityTimeout=0)
    (second,) = queues.receive(url=queues.dead)
    return first, second


def test_message_returns_when_its_timeout_ends(queues: Timed) -> None:
    queues.send("body")
    queues.receive()
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + 30 * SECOND
    queues.clock.now += 15 * SECOND
    assert queues.receive() == []
    queues.clock.now += 15 * SECOND
    (message,) = queues.receive(VisibilityTimeout=7)
    queues.show(message, seconds=60)
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + 60 * SECOND


def test_visibility_is_refused_when_it_ends_twelve_hours_after_the_receive(queues: Timed) -> None:
    queues.send("body")
    (message,) = queues.receive()
    queues.clock.now += SECOND
    assert code(lambda: queues.show(message, seconds=43_200)) == "InvalidParameterValue"
    queues.show(message, seconds=43_199)


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("show", "AWS.SimpleQueueService.MessageNotInflight"),
        ("delete", "InvalidParameterValue"),
    ],
)
def test_visibility_is_refused_when_the_message_is_not_in_flight(queues: Timed, end: str, wanted: str) -> None:
    queues.send("body")
    (message,) = queues.receive()
    getattr(queues, end)(message)
    assert code(lambda: queues.show(message)) == wanted


def test_receipt_is_refused_when_it_is_unknown(queues: Timed) -> None:
    unknown = {"ReceiptHandle": "unknown"}
    assert queues.delete(unknown) == code(lambda: queues.show(unknown)) == "ReceiptHandleIsInvalid"


def test_parameter_is_refused_when_it_is_unknown(queues: Timed) -> None:
    with pytest.raises(UnsupportedRequest):
        queues.client.send_message(QueueUrl=queues.url, MessageBody="body", DelaySeconds=1)


def test_message_expires_when_its_retention_ends(queues: Timed) -> None:
    queues.send("early")
    queues.clock.now += DAY
    queues.send("late")
    queues.clock.now += 3 * DAY
    assert queues.bodies() == ["late"]


@pytest.mark.parametrize(("fifo", "left"), [(False, 3 * DAY), (True, 4 * DAY)])
def test_retention_of_a_dead_letter_starts_again_when_it_is_in_a_fifo_queue(
    queues: Timed, fifo: bool, left: int
) -> None:
    url, dead = (queues.fifo, queues.fifo_dead) if fifo else (queues.url, queues.dead)
    queues.send("body", url=url, **({"MessageGroupId": "a"} if fifo else {}))
    queues.clock.now += DAY
    for _ in range(2):
        queues.show(queues.receive(url=url)[0], url)
    assert queues.receive(url=url) == []
    queues.clock.now += left - 1
    (letter,) = queues.service.messages(dead)
    assert letter.source_arn == queues.arn(url)
    assert letter.deduplication_id == (letter.message_id if fifo else None)
    queues.clock.now += 1
    assert queues.service.messages(dead) == []


def test_old_receipt_deletes_or_changes_by_chance() -> None:
    deleted, shown = set(), set()
    for seed in range(60):
        queues = Timed(seed)
        first, _ = receive_twice(queues)
        deleted.add((queues.delete(first, queues.dead), len(queues.service.messages(queues.dead))))
        queues = Timed(seed)
        first, second = receive_twice(queues)
        try:
            queues.show(first, queues.dead)
        except Exception:
            queues.delete(second, queues.dead)  # the newest receipt always deletes
        shown.add(len(queues.service.messages(queues.dead)))
    assert deleted == {("", 0), ("", 1), ("InvalidParameterValue", 1)}
    assert shown == {0, 1}


def test_copy_is_delivered_when_a_message_in_flight_is_shown(queues: Timed) -> None:
    (message_id,) = queues.send("body")
    (first,) = queues.receive()
    assert queues.service.deliver_again(queues.url) == message_id
    (second,) = queues.receive()
    assert second["MessageId"] == message_id
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert queues.service.deliver_again(queues.fifo) is None


def test_deleted_message_returns_when_it_is_undeleted(queues: Timed) -> None:
    (message_id,) = queues.send("body")
    queues.delete(queues.receive()[0])
    assert queues.service.undelete(queues.url) == message_id
    assert queues.service.undelete(queues.url) is None
    (again,) = queues.receive()
    assert (again["MessageId"], again["Attributes"]["ApproximateReceiveCount"]) == (message_id, "2")


def test_short_poll_misses_messages_when_it_samples(queues: Timed) -> None:
    queues.send(*"abcdef", url=queues.dead)
    queues.service.missing = 0.5
    sizes = {len(queues.receive(url=queues.dead, VisibilityTimeout=0)) for _ in range(60)}
    assert sizes >= {1, 2, 3, 4, 5}
    assert len(queues.receive(url=queues.dead, WaitTimeSeconds=1)) == 6


def test_group_waits_when_one_of_it_is_in_flight(queues: Timed) -> None:
    send(queues, "a", "a1", "a2", "a3")
    send(queues, "b", "b1")
    first, second = queues.receive(2, queues.fifo)
    assert (first["Body"], second["Body"]) == ("a1", "a2")
    assert queues.bodies(url=queues.fifo) == ["b1"]
    queues.show(second, queues.fifo)
    assert queues.bodies(url=queues.fifo) == []
    queues.show(first, queues.fifo)
    assert queues.bodies(url=queues.fifo) == ["a1", "a2", "a3"]


def test_groups_take_turns(queues: Timed) -> None:
    for body in ("a1", "a2", "b1", "c1"):
        send(queues, body[0], body)
    handed = []
    for _ in range(4):
        (message,) = queues.receive(1, queues.fifo)
        handed.append(message["Body"])
        queues.delete(message, queues.fifo)
    assert handed == ["a1", "b1", "c1", "a2"]


def test_second_send_is_dropped_when_it_has_the_same_token_within_five_minutes(queues: Timed) -> None:
    (first,) = queues.send("body", url=queues.fifo, **TOKEN)
    queues.clock.now += 300 * SECOND - 1
    assert queues.send("other body", url=queues.fifo, **TOKEN) == [first]
    queues.clock.now += 1
    assert queues.send("body", url=queues.fifo, **TOKEN) != [first]


def test_repeated_attempt_returns_the_same_and_hides_it_again(queues: Timed) -> None:
    send(queues, "a", "body")
    attempt: dict[str, Any] = {"url": queues.fifo, "ReceiveRequestAttemptId": "attempt"}
    first = queues.receive(**attempt)
    queues.clock.now += 29 * SECOND
    assert queues.receive(**attempt) == first
    queues.clock.now += 29 * SECOND
    assert queues.receive(url=queues.fifo) == []
    queues.clock.now += SECOND
    assert queues.receive(**attempt) != first


def test_repeated_attempt_is_new_when_a_message_was_deleted(queues: Timed) -> None:
    send(queues, "a", "a1")
    send(queues, "b", "b1")
    (first,) = queues.receive(1, queues.fifo, ReceiveRequestAttemptId="attempt")
    queues.delete(first, queues.fifo)
    assert queues.bodies(1, queues.fifo, ReceiveRequestAttemptId="attempt") == ["b1"]


@pytest.mark.parametrize("received_again", [False, True])
def test_fifo_receipt_is_refused_when_it_has_expired(queues: Timed, received_again: bool) -> None:
    send(queues, "a", "body")
    (message,) = queues.receive(url=queues.fifo)
    queues.show(message, queues.fifo)
    if received_again:
        queues.receive(url=queues.fifo)
    assert queues.delete(message, queues.fifo) == "InvalidParameterValue"
    assert code(lambda: queues.show(message, queues.fifo)) == "InvalidParameterValue"
