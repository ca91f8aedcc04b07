"""Batch size, batching window and payload limit, with a scripted queue and clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneslot.local.mapping.batching import LONG_POLL_SECONDS, PAYLOAD_LIMIT, Batch, collect, cut

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


def message(number: int, body: str = "x") -> MessageTypeDef:
    return {"MessageId": str(number), "ReceiptHandle": "r", "Body": body, "MD5OfBody": "d"}


class Queue:
    """Returns scripted numbers of messages. An empty receive takes all of its waiting time."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []
        self.now = 0.0
        self.stopping = False
        self.given = 0

    def receive(self, how_many: int, wait_seconds: int) -> list[MessageTypeDef]:
        self.asked.append((how_many, wait_seconds))
        count = min(how_many, self.answers.pop(0)) if self.answers else 0
        if not count:
            self.now += wait_seconds
        self.given += count
        return [message(self.given - count + each) for each in range(count)]

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return self.stopping

    def collect(self, batch_size: int, window: float, carried: tuple[MessageTypeDef, ...] = ()) -> Batch:
        return collect(
            self.receive,
            batch_size=batch_size,
            window_seconds=window,
            carried=carried,
            clock=lambda: self.now,
            pause=self.pause,
        )


def test_collect_takes_one_receive_without_a_window() -> None:
    queue = Queue(3, 7)
    assert len(queue.collect(10, 0).messages) == 3
    assert queue.asked == [(10, LONG_POLL_SECONDS)]


def test_collect_is_empty_after_one_long_poll() -> None:
    queue = Queue()
    assert queue.collect(10, 5) == Batch((), ())
    assert queue.asked == [(10, LONG_POLL_SECONDS)]


def test_collect_fills_a_batch_within_the_window() -> None:
    queue = Queue(10, 10, 10)
    assert len(queue.collect(25, 5).messages) == 25
    assert [how_many for how_many, _ in queue.asked] == [10, 10, 5]
    assert queue.now < 5


def test_window_opens_with_the_first_message() -> None:
    queue = Queue(1, 0, 1)
    batch = queue.collect(100, 3)
    assert len(batch.messages) == 2
    assert 3 <= queue.now < 3.2


def test_collect_returns_at_once_when_stopped() -> None:
    queue = Queue(2, 5)
    queue.stopping = True
    assert len(queue.collect(100, 300).messages) == 2
    assert queue.now == 0


def test_cut_carries_what_exceeds_six_megabytes() -> None:
    megabyte = [message(number, "x" * (1 << 20)) for number in range(10)]
    first = cut(megabyte, batch_size=10)
    assert len(first.messages) == 5
    assert sum(len(each["Body"]) for each in first.messages) < PAYLOAD_LIMIT
    queue = Queue(10)
    second = queue.collect(10, 0, first.carried)
    assert second == Batch(first.carried, ())
    assert queue.asked == []


def test_cut_keeps_one_message_of_any_size() -> None:
    huge = message(1, "\x00" * (1 << 20) * 2)
    assert cut([huge], batch_size=10) == Batch((huge,), ())


def test_carried_messages_respect_the_batch_size() -> None:
    carried = tuple(message(number) for number in range(7))
    batch = Queue().collect(3, 0, carried)
    assert (len(batch.messages), len(batch.carried)) == (3, 4)
