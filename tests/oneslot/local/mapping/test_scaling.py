"""Lambda's scaling of an SQS source, on a clock of the test's own."""

from __future__ import annotations

import pytest

from oneslot.local.mapping.scaling import Scaling
from oneslot.runtime.surroundings import Surroundings


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_starts_at_five_and_grows_by_300_a_minute_to_1250(clock: Clock) -> None:
    scaling = Scaling(None, Surroundings(steady=clock))
    assert scaling.allowed() == 5
    clock.now = 60
    assert scaling.allowed() == 305
    clock.now = 3600
    assert scaling.allowed() == 1250


def test_maximum_concurrency_caps_even_the_first_five(clock: Clock) -> None:
    scaling = Scaling(2, Surroundings(steady=clock))
    assert scaling.allowed() == 2
    clock.now = 600
    assert scaling.allowed() == 2


def test_an_empty_poll_starts_over(clock: Clock) -> None:
    scaling = Scaling(None, Surroundings(steady=clock))
    clock.now = 60
    scaling.nothing_received()
    assert scaling.allowed() == 5
    clock.now = 61
    assert scaling.allowed() == 10


def test_function_errors_halve_down_to_one_and_it_recovers(clock: Clock) -> None:
    scaling = Scaling(8, Surroundings(steady=clock))
    clock.now = 60
    allowed = []
    for _ in range(5):
        scaling.function_error()
        allowed.append(scaling.allowed())
    assert allowed == [4, 2, 1, 1, 1]
    clock.now = 62
    assert scaling.allowed() == 8
