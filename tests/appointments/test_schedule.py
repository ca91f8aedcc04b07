"""How slots are found and chosen."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from appointments.messages import BookRequest, parse_message
from appointments.schedule import FreeSlot, choose, free_key, free_key_range, utc_text
from tests.consumer_kit import CHANNEL, SERVICE, booking, free_slot, slot_item

times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda time: time.replace(microsecond=0, tzinfo=UTC)
)


def slots(count: int) -> list[FreeSlot]:
    return [free_slot(slot_item(number)) for number in range(count)]


def request(**changes: str) -> BookRequest:
    parsed = parse_message("m-1", "hash", booking(**changes))
    assert isinstance(parsed, BookRequest)
    return parsed


@given(times, times)
def test_times_as_text_sort_like_times(one: datetime, other: datetime) -> None:
    assert (utc_text(one) < utc_text(other)) == (one < other)
    assert len(utc_text(one)) == len("2099-11-23T08:00:00Z")


def test_the_range_includes_the_first_moment_and_excludes_the_last() -> None:
    early = datetime(2099, 1, 1, tzinfo=UTC)
    first, last = free_key_range(request(), early)
    inside = ["2099-11-23T08:00:00Z", "2099-11-24T07:59:59Z"]
    outside = ["2099-11-23T07:59:59Z", "2099-11-24T08:00:00Z"]
    assert all(first <= free_key(CHANNEL, SERVICE, start, "s") <= last for start in inside)
    assert not any(first <= free_key(CHANNEL, SERVICE, start, "s") <= last for start in outside)
    assert not first <= free_key("Video", SERVICE, inside[0], "s") <= last
    assert not first <= free_key(CHANNEL, SERVICE + " Acute", inside[0], "s") <= last


def test_a_slot_in_the_past_is_not_offered() -> None:
    now = datetime(2099, 11, 23, 12, 0, tzinfo=UTC)
    first, _ = free_key_range(request(), now)
    assert free_key(CHANNEL, SERVICE, "2099-11-23T11:50:00Z", "s") < first
    assert free_key(CHANNEL, SERVICE, "2099-11-23T12:00:00Z", "s") >= first


@given(st.text(min_size=1, max_size=20), st.integers(1, 20), st.randoms())
def test_a_choice_ignores_order_and_survives_the_loss_of_others(message_id: str, count: int, random: object) -> None:
    candidates = slots(count)
    chosen = choose(message_id, candidates)
    assert choose(message_id, candidates[::-1]) == chosen
    assert (
        choose(message_id, [slot for slot in candidates if slot == chosen or slot.slot_id < chosen.slot_id]) == chosen
    )


def test_requests_spread_over_the_candidates() -> None:
    candidates = slots(20)
    chosen = Counter(choose(f"m-{number}", candidates).slot_id for number in range(2_000))
    assert len(chosen) == 20
    # 100 each on average; a binomial with these numbers stays within 5 standard deviations (about 49).
    assert max(abs(count - 100) for count in chosen.values()) < 50


def test_ten_minutes_apart_in_the_kit() -> None:
    first, second = slots(2)
    assert datetime.fromisoformat(second.start) - datetime.fromisoformat(first.start) == timedelta(minutes=10)
