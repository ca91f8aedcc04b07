"""The keys of free slots, and the choice among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appointments.allocation import FreeSlot, UnreadableFreeKey, choose, free_key, free_key_range, free_slot, utc_text
from appointments.messages import BookRequest, parse_message
from tests.kits.consumer import CHANNEL, SERVICE, booking, slot_item

times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda time: time.replace(microsecond=0, tzinfo=UTC)
)


texts = st.text(min_size=1, max_size=20)


def keys(count: int) -> list[str]:
    return [slot_item(number)["free_key"] for number in range(count)]


def key(start: str, channel: str = CHANNEL, service: str = SERVICE) -> str:
    times = {"start": start, "end": "2099-11-23T23:00:00Z"}
    return free_key({"delivery_channel": channel, "service_type": service, **times, "slot_id": "s"})


def request(message_id: str = "m-1") -> BookRequest:
    parsed = parse_message(message_id, "hash", booking(message_id))
    assert isinstance(parsed, BookRequest)
    return parsed


@given(times, times)
def test_utc_text_sorts_like_times(one: datetime, other: datetime) -> None:
    assert (utc_text(one) < utc_text(other)) == (one < other)
    assert len(utc_text(one)) == len("2099-11-23T08:00:00Z")


def test_range_includes_first_moment_and_excludes_last() -> None:
    early = datetime(2099, 1, 1, tzinfo=UTC)
    first, last = free_key_range(request(), early)
    inside = ["2099-11-23T08:00:00Z", "2099-11-24T07:59:59Z"]
    outside = ["2099-11-23T07:59:59Z", "2099-11-24T08:00:00Z"]
    assert all(first <= key(start) <= last for start in inside)
    assert not any(first <= key(start) <= last for start in outside)
    assert not first <= key(inside[0], channel="Video") <= last
    assert not first <= key(inside[0], service=SERVICE + " Acute") <= last
    assert not first <= key(inside[0], service=SERVICE + "2099-11-23T12:00:00Z") <= last


def test_range_excludes_slots_in_the_past() -> None:
    now = datetime(2099, 11, 23, 12, 0, 0, 500_000, tzinfo=UTC)  # keys have whole seconds
    first, _ = free_key_range(request(), now)
    assert first.endswith("#2099-11-23T12:00:00Z")
    assert key("2099-11-23T11:50:00Z") < first
    assert key("2099-11-23T12:00:00Z") >= first


@given(texts, texts, times, times, texts)
def test_free_slot_reads_what_free_key_wrote(
    channel: str, service: str, start: datetime, end: datetime, slot_id: str
) -> None:
    wanted = replace(request(), delivery_channel=channel, service_type=service)
    slot = FreeSlot(slot_id, utc_text(start), utc_text(end))
    assert free_slot(wanted, free_key({"delivery_channel": channel, "service_type": service, **asdict(slot)})) == slot


def test_error_names_free_key_of_another_form() -> None:
    with pytest.raises(UnreadableFreeKey, match=r"A81001 .*Telephone#x"):
        free_slot(request(), "Telephone#x")


@given(texts, st.integers(1, 20))
def test_choice_ignores_order_and_loss_of_other_slots(message_id: str, count: int) -> None:
    wanted, candidates = replace(request(), message_id=message_id), keys(count)
    chosen = choose(wanted, candidates)
    assert choose(wanted, candidates[::-1]) == chosen
    assert choose(wanted, candidates[: candidates.index(chosen) + 1]) == chosen


def test_requests_spread_over_candidates() -> None:
    candidates = keys(20)
    chosen = Counter(choose(request(f"m-{number}"), candidates) for number in range(2_000))
    assert len(chosen) == 20
    # 100 each on average; a binomial with these numbers stays within 5 standard deviations (about 49).
    assert max(abs(count - 100) for count in chosen.values()) < 50
