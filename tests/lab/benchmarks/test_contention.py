"""Contention with fake consumers: its figures, and its end after an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from booking import slot_search
from lab.benchmarks import contention
from lab.benchmarks.contention import CONSUMERS, DEFAULT, GROUPED, OURS, STRATEGIES, choosing, measure

Deliver = Callable[[int], None]


class Nothing:
    """A fake stand-in that keeps the booked slots and has a fixed bill."""

    def __init__(self) -> None:
        self.booked: list[dict[str, Any]] = []

    def reset(self, *_: Any) -> None:
        self.booked.clear()

    def client(self, *_: Any, **__: Any) -> None:
        return None

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.booked if table == "slots" else []

    def control(self, operation: str) -> dict[str, int]:
        return {"cancelled": 50, "cancelled_writes": 450}


@pytest.fixture
def standin() -> Any:
    return Nothing()


def consumers(monkeypatch: pytest.MonkeyPatch, standin: Nothing, deliver: Deliver = lambda size: None) -> list[int]:
    """Let each consumer book its whole batch; return the sizes of the batches."""
    sizes: list[int] = []

    def consume(event: Mapping[str, Any], _: Any) -> Mapping[str, Any]:
        sizes.append(len(event["Records"]))
        deliver(len(sizes))
        standin.booked += [{"status": {"S": "busy"}}] * sizes[-1]
        return {"batchItemFailures": []}

    monkeypatch.setattr(contention, "appointments_consumer", lambda *_, **__: consume)
    return sizes


@pytest.mark.parametrize(("way", "batches"), [(DEFAULT, [1] * 100), (GROUPED, [3] * 33 + [1])])
def test_contention_delivers_every_request_once(
    monkeypatch: pytest.MonkeyPatch, standin: Any, way: str, batches: list[int]
) -> None:
    sizes = consumers(monkeypatch, standin)
    figure = measure(standin, way, OURS, free_slots=100, candidates=16, bookings=100)
    assert sorted(sizes) == sorted(batches)
    assert (figure.bookings, figure.retries_per_booking, figure.wasted_units) == (100, 0.5, 4.5)


def test_contention_raises_when_a_request_got_no_slot(monkeypatch: pytest.MonkeyPatch, standin: Any) -> None:
    consumers(monkeypatch, standin, lambda size: standin.booked.clear())
    with pytest.raises(RuntimeError, match="of 100 booked, 0 failed"):
        measure(standin, DEFAULT, OURS, free_slots=100, candidates=16, bookings=100)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConnectionError])
def test_contention_stops_its_consumers_after_an_error(
    monkeypatch: pytest.MonkeyPatch, standin: Any, error: type[BaseException]
) -> None:
    def fail(number: int) -> None:
        if number == CONSUMERS:
            raise error
        time.sleep(0.01)  # lets the other threads run, as a call does

    sizes = consumers(monkeypatch, standin, fail)
    with pytest.raises(error):
        measure(standin, DEFAULT, OURS, free_slots=1, candidates=16, bookings=20_000)
    assert len(sizes) < 20_000


def test_choice_is_restored_after_an_error() -> None:
    before = vars(slot_search)["choose"]
    with pytest.raises(ConnectionError), choosing(STRATEGIES["first free"]):
        raise ConnectionError
    assert vars(slot_search)["choose"] is before
