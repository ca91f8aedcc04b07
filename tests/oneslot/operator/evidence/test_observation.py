"""Looking on: rate, time left, and when an empty queue is believed."""

from collections import Counter

import pytest

from oneslot.operator.commands.watch import _line
from oneslot.operator.evidence import observation
from oneslot.operator.evidence.malformed import Tally
from oneslot.operator.evidence.observation import LOOKS_WHEN_EMPTY, Observer, until_drained
from oneslot.runtime.sqs.queue import QueueDepth
from tests.kits.moto_stack import MotoStack


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


def test_observer_reports_rate_and_time_left(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(
        monkeypatch, QueueDepth(100, 0, 0), QueueDepth(70, 10, 0), QueueDepth(40, 10, 0), QueueDepth(200, 0, 0)
    )
    observer = Observer(moto_stack.target, clock=waiting.clock)
    first = observer.look()
    waiting.sleep(2)
    second = observer.look()
    waiting.sleep(2)
    third = observer.look()
    assert first.rate is None
    assert (second.rate, second.seconds_left) == (10, 7)
    assert (third.rate, third.seconds_left) == (12.5, 3.2)
    assert observer.look().rate is None, "the queue grows"


def test_queue_is_drained_at_the_third_empty_look(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, late = QueueDepth(0, 0, 0), QueueDepth(0, 0, 1)
    waiting = Waiting(monkeypatch, empty, late, empty)
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = list(until_drained(observer, interval=1, timeout=None, sleep=waiting.sleep, clock=waiting.clock))
    assert [look.drained for look in looks] == [False] * 4 + [True]
    assert LOOKS_WHEN_EMPTY == 3


def test_watching_ends_after_its_timeout(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(1, 0, 0))
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = list(until_drained(observer, interval=1, timeout=5, sleep=waiting.sleep, clock=waiting.clock))
    assert len(looks) == 6
    assert not looks[-1].drained


def counts(monkeypatch: pytest.MonkeyPatch, waiting: Waiting, took: float) -> list[float]:
    """Let each count of the ledger take `took` seconds and find one more complete row; return the start times."""
    began: list[float] = []

    def tally(*_: object) -> Tally:
        began.append(waiting.now)
        waiting.sleep(took)
        return Tally(Counter(COMPLETE=len(began)))

    monkeypatch.setattr(observation, "tally", tally)
    return began


def test_observer_counts_again_while_the_queue_is_empty(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue with little to do is empty at every look; counting may take a hundredth of the time then."""
    waiting = Waiting(monkeypatch, QueueDepth(0, 0, 0))
    began = counts(monkeypatch, waiting, took=1)
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = until_drained(observer, interval=5, timeout=300, for_ever=True, sleep=waiting.sleep, clock=waiting.clock)
    completed = [look.ledger["complete"] for look in looks]
    assert completed[:3] == [1, 2, 3]
    assert completed[-1] == 5
    assert began[3] - began[2] > 100
    assert began[4] - began[3] > 100


def test_snapshot_shows_the_age_of_an_old_count(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(9, 0, 0))
    counts(monkeypatch, waiting, took=20)
    observer = Observer(moto_stack.target, clock=waiting.clock)
    looks = []
    for _ in range(3):
        looks.append(observer.look())
        waiting.sleep(70)
    assert [(look.ledger["complete"], look.counted_seconds_ago) for look in looks] == [(1, 0), (1, 70), (1, 140)]
    assert "ago" not in _line(looks[0])
    assert "ledger 1 complete, 0 in progress, 70 s ago" in _line(looks[1])
    assert "0 in progress, 140 s ago" in _line(looks[2])


def test_watch_names_no_lease_when_a_failed_message_waits_for_its_next_delivery(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(monkeypatch, QueueDepth(0, 1, 0))
    shown = _line(Observer(moto_stack.target, clock=waiting.clock).look())
    assert shown.endswith("the rest is being processed, or hidden until its next delivery")
