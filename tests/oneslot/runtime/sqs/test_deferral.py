"""How long SQS hides a message before its next receive."""

from __future__ import annotations

import pytest

from oneslot.runtime.sqs.queue import Deferral, deferral_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, [1, 2, 4, 8, 300, 300]), (1.0, [2, 4, 8, 16, 302, 302])])
def test_busy_message_waits_short_times_that_grow(jitter: float, seconds: list[int]) -> None:
    deferral = Deferral(max_receive_count=10)

    assert [deferral.after_busy(count, 300_000, jitter) for count in range(1, 7)] == seconds


@pytest.mark.parametrize(
    ("lease_ms", "jitter", "seconds"), [(0, 0.0, 0), (1, 0.0, 1), (1_000, 0.0, 1), (1_001, 0.0, 2), (29_500, 1.0, 32)]
)
def test_whole_wait_never_ends_before_the_lease(lease_ms: int, jitter: float, seconds: int) -> None:
    assert Deferral(max_receive_count=3).after_busy(1, lease_ms, jitter) == seconds


@pytest.mark.parametrize("receive_count", [1, 4])
def test_short_wait_never_outlasts_the_lease(receive_count: int) -> None:
    assert Deferral().after_busy(receive_count, 500, 0.0) == 1


@pytest.mark.parametrize("ahead_ms", [6 * HOUR_MS, 2 * HOUR_MS])
def test_lease_of_a_wrong_clock_hides_no_longer_than_a_right_one(ahead_ms: int) -> None:
    deferral = Deferral(max_receive_count=10, longest_lease_seconds=30)

    assert [deferral.after_busy(count, ahead_ms, 0.0) for count in (1, 5, 10)] == [1, 30, 30]


@pytest.mark.parametrize("max_receive_count", [3, 5, 10, 11, 100])
def test_healthy_message_keeps_half_of_its_receives(max_receive_count: int) -> None:
    deferral = Deferral(max_receive_count=max_receive_count)
    left, receives = 900_000, 0

    while left > 0:
        receives += 1
        left -= 1000 * deferral.after_busy(receives, left, 0.0)

    assert receives <= max(1, max_receive_count // 2)


def test_delay_after_a_failure_grows_up_to_the_longest() -> None:
    deferral = Deferral(longest_retry_delay_seconds=300)

    assert [deferral.after_failure(count, 0.0) for count in (1, 2, 9, 10, 5_000)] == [1, 2, 256, 300, 300]
    assert deferral.after_failure(1, 1.0) == 2


def test_failed_message_is_left_alone_without_a_longest_delay() -> None:
    assert Deferral().after_failure(1, 0.0) is None


def test_numbers_come_from_the_environment() -> None:
    environment = {
        "ONESLOT_MAX_RECEIVE_COUNT": "20",
        "ONESLOT_LONGEST_LEASE_SECONDS": "30",
        "ONESLOT_LONGEST_RETRY_DELAY_SECONDS": "60",
    }

    assert deferral_of(environment) == Deferral(
        max_receive_count=20, longest_lease_seconds=30, longest_retry_delay_seconds=60
    )
    assert deferral_of({}) == Deferral(max_receive_count=10, longest_lease_seconds=900, longest_retry_delay_seconds=0)


def test_malformed_number_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ONESLOT_LONGEST_LEASE_SECONDS"):
        deferral_of({"ONESLOT_LONGEST_LEASE_SECONDS": "long"})
