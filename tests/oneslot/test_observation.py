"""Looking on: rate, time left, and when an empty queue is believed."""

from __future__ import annotations

import pytest

from oneslot import observation
from oneslot.observation import LOOKS_WHEN_EMPTY, Observer, until_drained
from oneslot.queues import QueueDepth
from tests.consumer_kit import booking, record
from tests.oneslot.conftest import MotoStack


class Waiting:
    """A clock that sleeping moves, and a queue that says these depths in turn, the last for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *depths: QueueDepth) -> None:
        self.now = 0.0
        self._depths = list(depths)
        monkeypatch.setattr(observation, "queue_depth", self._depth)

    def _depth(self, _client: object, queue_url: str) -> QueueDepth:
        if "dead" in queue_url:
            return QueueDepth(0, 0, 0)
        return self._depths.pop(0) if len(self._depths) > 1 else self._depths[0]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_rate_and_time_left(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(100, 0, 0), QueueDepth(70, 10, 0), QueueDepth(40, 10, 0))
    observer = Observer(moto_stack.target, clock=waiting.clock)
    first = observer.look()
    waiting.sleep(2)
    second = observer.look()
    waiting.sleep(2)
    third = observer.look()
    assert first.rate is None
    assert (second.rate, second.seconds_left) == (10, 7)
    assert (third.rate, third.seconds_left) == (12.5, 3.2)


def test_a_growing_queue_has_no_rate(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(10, 0, 0), QueueDepth(20, 0, 0))
    observer = Observer(moto_stack.target, clock=waiting.clock)
    observer.look()
    waiting.sleep(1)
    assert observer.look().rate is None


def test_an_empty_queue_is_believed_at_the_third_look(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, late = QueueDepth(0, 0, 0), QueueDepth(0, 0, 1)
    waiting = Waiting(monkeypatch, empty, late, empty)
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = list(until_drained(observer, interval=1, timeout=None, sleep=waiting.sleep, clock=waiting.clock))
    assert [look.drained for look in looks] == [False] * 4 + [True]
    assert LOOKS_WHEN_EMPTY == 3


def test_watching_ends_when_its_time_is_over(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(1, 0, 0))
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = list(until_drained(observer, interval=1, timeout=5, sleep=waiting.sleep, clock=waiting.clock))
    assert len(looks) == 6
    assert not looks[-1].drained


def test_rows_are_counted_by_what_they_wait_for(moto_stack: MotoStack) -> None:
    # An unknown practice is found out under a claim, which is then given back.
    moto_stack.bench.deliver(record(booking("m-1")), record(booking("m-2", practice="ZZZ999")))
    snapshot = Observer(moto_stack.target).look()
    assert (snapshot.complete, snapshot.in_progress, snapshot.released) == (1, 0, 1)
    assert snapshot.dead_letters == 1
