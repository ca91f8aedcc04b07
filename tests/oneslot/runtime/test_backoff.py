"""Pauses before a retry: how long they are, and when there is no time for another."""

from __future__ import annotations

import pytest

from oneslot.runtime.surroundings import Backoff, Surroundings
from tests.kits.consumer import Clock


def pauses(lease_ms: int) -> list[float]:
    """Return the longest pauses before each retry within such a lease, in milliseconds."""
    clock, begun = Clock(), []

    def sleep(seconds: float) -> None:
        begun.append(seconds * 1000)
        clock.sleep(seconds)

    backoff = Backoff(Surroundings(now_ms=clock, sleep=sleep, jitter=lambda: 1.0), clock() + lease_ms)
    while backoff.pause():
        pass
    return begun


@pytest.mark.parametrize(
    ("lease_ms", "expected"),
    [
        (-10_000, []),
        (0, []),
        (50, []),  # half of a short time is left for reporting the error
        (51, [25]),
        (7_000, [25, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000]),
    ],
)
def test_pauses_double_up_to_a_second_while_there_is_time(lease_ms: int, expected: list[int]) -> None:
    assert pauses(lease_ms) == pytest.approx(expected)


@pytest.mark.parametrize(("started", "deadline", "end"), [(None, 30_000, 28_500), (-8_000, 2_000, 500)])
def test_time_is_up_a_second_and_a_half_before_the_deadline(started: int | None, deadline: int, end: int) -> None:
    """It counts from the start of the work, of which a part may be over."""
    clock = Clock()
    surroundings = Surroundings(now_ms=clock, sleep=clock.sleep, jitter=lambda: 0.0)
    backoff = Backoff(surroundings, clock() + deadline, None if started is None else clock() + started)
    clock.now += end - 1
    assert backoff.pause()
    clock.now += 1
    assert not backoff.pause()
