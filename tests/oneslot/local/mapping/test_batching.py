"""Batch size, batching window and payload limit, with a scripted queue and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oneslot.local.mapping.poller import LONG_POLL_SECONDS, PAYLOAD_LIMIT, Batch, collect, fitting
from oneslot.runtime.surroundings import Event, Surroundings

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


def message(number: int, body: str = "x") -> MessageTypeDef:
    return {"MessageId": str(number), "ReceiptHandle": "r", "Body": body, "MD5OfBody": "d"}


NOTHING = Batch()


class Queue:
    """Returns scripted numbers of messages. An empty receive takes all of its waiting time."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []
        self.now = 0.0
        self.stopping = False
        self.given = 0
        self.body = "x"

    def receive(self, how_many: int, wait_seconds: int) -> list[MessageTypeDef]:
        self.asked.append((how_many, wait_seconds))
        count = min(how_many, self.answers.pop(0)) if self.answers else 0
        if not count:
            self.now += wait_seconds
        self.given += count
        return [message(self.given - count + each, self.body) for each in range(count)]

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.stopping

    def is_set(self) -> bool:
        return self.stopping

    def collect(
        self, batch_size: int, window: float, carried: Batch = NOTHING, *, oldest: float = 900
    ) -> tuple[Batch, Batch]:
        return collect(
            self.receive,
            batch_size=batch_size,
            window_seconds=window,
            oldest_seconds=oldest,
            carried=carried,
            surroundings=Surroundings(steady=lambda: self.now),
            stopping=cast("Event", self),
        )


def test_collect_takes_one_receive_without_a_window() -> None:
    queue = Queue(3, 7)
    assert len(queue.collect(10, 0)[0].messages) == 3
    assert queue.asked == [(10, LONG_POLL_SECONDS)]


def test_collect_is_empty_after_one_long_poll() -> None:
    queue = Queue()
    assert queue.collect(10, 5) == (Batch(), Batch())
    assert queue.asked == [(10, LONG_POLL_SECONDS)]


def test_collect_fills_a_batch_within_the_window() -> None:
    queue = Queue(10, 10, 10)
    assert len(queue.collect(25, 5)[0].messages) == 25
    assert [how_many for how_many, _ in queue.asked] == [10, 10, 5]
    assert queue.now < 5


def test_window_opens_with_the_first_message() -> None:
    queue = Queue(1, 0, 1)
    batch, _ = queue.collect(100, 3)
    assert len(batch.messages) == 2
    assert 3 <= queue.now < 3.2


def test_collect_returns_at_once_when_stopped() -> None:
    queue = Queue(2, 5)
    queue.stopping = True
    assert len(queue.collect(100, 300)[0].messages) == 2
    assert queue.now == 0


def test_window_closes_while_the_function_has_its_time() -> None:
    queue = Queue(1)

    batch, _ = queue.collect(100, 300, oldest=30)

    assert len(batch.messages) == 1
    assert 30 <= queue.now < 30.2


def test_collect_carries_what_exceeds_six_megabytes() -> None:
    queue = Queue(10)
    queue.body = "x" * (1 << 20)
    queue.now = 7

    first, carried = queue.collect(10, 0)
    second = queue.collect(10, 0, carried)

    assert (len(first.messages), len(carried.messages)) == (5, 5)
    assert sum(len(each["Body"]) for each in first.messages) < PAYLOAD_LIMIT
    assert second == (carried, Batch((), 7))
    assert len(queue.asked) == 1


def test_carried_messages_keep_the_time_of_their_receive() -> None:
    queue = Queue(2, 0, 10)
    queue.body = "x" * (1 << 20)

    first, carried = queue.collect(12, 5)

    assert (first.since, carried.since) == (0, 1)
    assert queue.collect(10, 0, carried)[0].since == 1


def test_fitting_takes_one_message_of_any_size() -> None:
    huge = message(1, "\x00" * (1 << 20) * 2)
    assert fitting([huge, message(2)], batch_size=10) == 1


def test_carried_messages_respect_the_batch_size() -> None:
    carried = Batch(tuple(message(number) for number in range(7)))
    batch, rest = Queue().collect(3, 0, carried)
    assert (len(batch.messages), len(rest.messages)) == (3, 4)
