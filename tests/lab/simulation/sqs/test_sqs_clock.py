"""The in-memory SQS where time passes: timeouts, retention, deduplication, move tasks; only its clock can be moved."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lab.simulation.sqs.service import SQSService
from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.explorer.port_clients import Clock, refusal

SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000


class Timed(Queues):
    """The queues, with a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.service = SQSService(self.clock, Random(1))
        super().__init__(self.service)

    def change(self, message: dict[str, Any], seconds: int) -> None:
        """Change a message's visibility timeout."""
        self.client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )

    def move(self, rate: int | None = None, source: str = "", **more: Any) -> None:
        """Start a move task of a dead-letter queue."""
        rates = {} if rate is None else {"MaxNumberOfMessagesPerSecond": rate}
        self.client.start_message_move_task(SourceArn=self.arn(source or self.dead), **rates, **more)

    @property
    def task(self) -> dict[str, Any]:
        """The newest move task of the standard dead-letter queue."""
        (task,) = self.client.list_message_move_tasks(SourceArn=self.arn(self.dead))["Results"]
        return dict(task)


@pytest.fixture
def queues() -> Timed:
    return Timed()


def bury(queues: Timed, *bodies: str) -> None:
    """Bring messages into the dead-letter queue by the redrive policy."""
    queues.send(*bodies)
    for _ in range(2):
        for message in queues.receive():
            queues.change(message, 0)
    queues.receive()


def test_message_returns_at_the_end_of_its_timeout(queues: Timed) -> None:
    queues.send("body")
    queues.receive()
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + 30 * SECOND
    queues.clock.now += 30 * SECOND - 1
    assert queues.receive() == []
    queues.clock.now += 1
    assert len(queues.receive(VisibilityTimeout=7)) == 1
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + 7 * SECOND


def test_changed_timeout_counts_from_the_change(queues: Timed) -> None:
    queues.send("body")
    (message,) = queues.receive()
    queues.clock.now += 15 * SECOND
    queues.change(message, 10)
    queues.clock.now += 10 * SECOND - 1
    assert queues.receive() == []
    queues.clock.now += 1
    assert len(queues.receive()) == 1


def test_longer_timeout_replaces_the_earlier_one(queues: Timed) -> None:
    queues.send("body")
    queues.change(queues.receive()[0], 60)
    queues.clock.now += 30 * SECOND
    assert queues.receive() == []
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + 30 * SECOND


def test_twelve_hours_count_from_the_receive(queues: Timed) -> None:
    queues.send("body")
    queues.clock.now += DAY
    (message,) = queues.receive()
    queues.change(message, 43_200)
    queues.clock.now += SECOND
    refused = refusal(lambda: queues.change(message, 43_200))
    assert refused["Error"]["Code"] == "InvalidParameterValue"
    queues.change(message, 43_199)


def test_message_expires_at_the_end_of_its_retention(queues: Timed) -> None:
    queues.send("early")
    queues.clock.now += DAY
    queues.send("late")
    queues.clock.now += 3 * DAY - 1
    assert len(queues.service.messages(queues.url)) == 2
    queues.clock.now += 1
    assert queues.bodies() == ["late"]


def test_retention_goes_on_in_the_dead_letter_queue(queues: Timed) -> None:
    queues.send("body")
    queues.clock.now += DAY
    for _ in range(2):
        queues.change(queues.receive()[0], 0)
    queues.receive()
    assert len(queues.service.messages(queues.dead)) == 1
    queues.clock.now += 3 * DAY
    assert queues.service.messages(queues.dead) == []


def test_retention_starts_again_in_a_fifo_dead_letter_queue(queues: Timed) -> None:
    queues.send("body", url=queues.fifo, MessageGroupId="a")
    queues.clock.now += DAY
    for _ in range(2):
        queues.show(queues.receive(url=queues.fifo)[0], queues.fifo)
    queues.receive(url=queues.fifo)
    queues.clock.now += 4 * DAY - 1
    assert len(queues.service.messages(queues.fifo_dead)) == 1
    queues.clock.now += 1
    assert queues.service.messages(queues.fifo_dead) == []


def test_token_is_forgotten_after_five_minutes(queues: Timed) -> None:
    token = {"url": queues.fifo, "MessageGroupId": "a", "MessageDeduplicationId": "token"}
    first = queues.send("body", **token)
    queues.clock.now += 300 * SECOND - 1
    assert queues.send("body", **token) == first
    queues.clock.now += 1
    assert queues.send("body", **token) != first


def test_token_counts_within_its_group_when_scoped() -> None:
    queues = Timed()
    attributes = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
    url = queues.client.create_queue(QueueName="scoped.fifo", Attributes=attributes)["QueueUrl"]
    first, second = (
        queues.send("body", url=url, MessageGroupId=group, MessageDeduplicationId="token")[0] for group in "ab"
    )
    assert first != second


def test_attempt_hides_its_messages_again_when_repeated(queues: Timed) -> None:
    queues.send("body", url=queues.fifo, MessageGroupId="a")
    attempt: dict[str, Any] = {"url": queues.fifo, "ReceiveRequestAttemptId": "attempt"}
    first = queues.receive(**attempt)
    queues.clock.now += 29 * SECOND
    assert queues.receive(**attempt) == first
    queues.clock.now += 29 * SECOND
    assert queues.receive(url=queues.fifo) == []
    queues.delete(first[0], queues.fifo)
    assert queues.service.messages(queues.fifo) == []


def test_attempt_is_new_after_its_timeout(queues: Timed) -> None:
    queues.send("body", url=queues.fifo, MessageGroupId="a")
    attempt: dict[str, Any] = {"url": queues.fifo, "ReceiveRequestAttemptId": "attempt"}
    first = queues.receive(**attempt)
    queues.clock.now += 30 * SECOND
    assert queues.receive(**attempt) != first


def test_groups_take_turns(queues: Timed) -> None:
    for body in ("a1", "a2", "a3", "b1", "c1"):
        queues.send(body, url=queues.fifo, MessageGroupId=body[0])
    handed = []
    for _ in range(4):
        (message,) = queues.receive(1, queues.fifo)
        handed.append(message["Body"])
        queues.delete(message, queues.fifo)
    assert handed == ["a1", "b1", "c1", "a2"]


def test_move_task_moves_at_its_rate_as_new_messages(queues: Timed) -> None:
    bury(queues, "a", "b", "c")
    before = {message.message_id for message in queues.service.messages(queues.dead)}
    queues.move(rate=1)
    queues.clock.now += 2 * SECOND
    assert queues.task["Status"] == "RUNNING"
    assert queues.task["ApproximateNumberOfMessagesMoved"] == 2
    assert queues.service.next_visible_ms(queues.url) == queues.clock.now + SECOND
    messages = queues.receive()
    assert [message["Body"] for message in messages] == ["a", "b"]
    assert before.isdisjoint(message["MessageId"] for message in messages)
    assert {message["Attributes"]["ApproximateReceiveCount"] for message in messages} == {"1"}
    queues.clock.now += 2 * SECOND
    assert (queues.task["Status"], queues.task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 3)
    assert queues.service.messages(queues.dead) == []


def test_move_task_leaves_messages_in_flight(queues: Timed) -> None:
    bury(queues, "a", "b")
    queues.receive(1, queues.dead)
    queues.move()
    queues.clock.now += SECOND
    assert (queues.task["Status"], queues.task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    assert [message.body for message in queues.service.messages(queues.dead)] == ["a"]


def test_move_task_fails_when_a_message_has_no_source(queues: Timed) -> None:
    queues.send("quarantined", url=queues.dead)
    queues.move()
    queues.clock.now += SECOND
    assert (queues.task["Status"], queues.task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    queues.move(DestinationArn=queues.arn(queues.url))
    queues.clock.now += SECOND
    assert queues.bodies() == ["quarantined"]


def test_move_task_keeps_the_order_of_a_group(queues: Timed) -> None:
    for body in ("a1", "b1", "a2"):
        queues.send(body, url=queues.fifo_dead, MessageGroupId=body[0], MessageDeduplicationId=body)
    queues.move(source=queues.fifo_dead, DestinationArn=queues.arn(queues.fifo))
    queues.clock.now += SECOND
    assert [message.body for message in queues.service.messages(queues.fifo)] == ["a1", "b1", "a2"]


def test_second_move_task_is_refused(queues: Timed) -> None:
    bury(queues, "a", "b")
    queues.move(rate=1)
    refused = refusal(lambda: queues.move(rate=1))
    assert refused["Error"]["Code"] == "AWS.SimpleQueueService.UnsupportedOperation"
    refused = refusal(lambda: queues.move(source=queues.url))
    assert refused["Error"]["Code"] == "InvalidParameterValue"
