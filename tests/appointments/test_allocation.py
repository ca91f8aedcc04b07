"""The decision: what was read, and the writes and the answer that follow from it."""

from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appointments import allocation
from appointments.allocation import FreeSlot, UnreadableFreeKey, choose, free_key, free_key_range, free_slot, utc_text
from appointments.messages import BookRequest, CancelRequest, parse_message
from oneslot.runtime.effects import Item, Put, Result, Update
from tests.kits.consumer import CHANNEL, NHS_NUMBER, PRACTICE, SERVICE, booking, slot_item

NOW = datetime(2026, 11, 20, 8, 0, 0, 500_000, tzinfo=UTC)
NOW_MS = 1_795_161_600_500


def request(message_id: str = "m-1") -> BookRequest:
    parsed = parse_message(message_id, "hash", booking(message_id))
    assert isinstance(parsed, BookRequest)
    return parsed


def test_booking_takes_slot_and_puts_appointment_once() -> None:
    slot = slot_item(0)
    effects = allocation.book(request(), slot["free_key"], NOW)
    times = {name: slot[name] for name in ("slot_id", "start", "end")}
    assert effects.result == {"outcome": "booked", "appointment_id": "m-1", "practice": PRACTICE, **times}
    assert effects.writes == (
        Update(
            "slots",
            {"practice": PRACTICE, "slot_id": slot["slot_id"]},
            expect={"status": "free", "free_key": slot["free_key"]},
            set={"status": "busy", "appointment_id": "m-1"},
            remove=("free_key",),
        ),
    )
    assert effects.once is not None
    assert effects.once.write == Put(
        "appointments",
        {
            "appointment_id": "m-1",
            "status": "booked",
            "practice": PRACTICE,
            "nhs_number": NHS_NUMBER,
            "delivery_channel": CHANNEL,
            "service_type": SERVICE,
            "payload_hash": "hash",
            "not_before": "2099-11-23T08:00:00Z",
            "not_after": "2099-11-24T08:00:00Z",
            "created": NOW_MS,
            "updated": NOW_MS,
            **times,
        },
        key="appointment_id",
    )
    assert effects.once.answer(effects.once.write.item) == effects.result


def test_booking_is_waitlisted_when_no_slot_is_free() -> None:
    effects = allocation.book(request(), None, NOW)
    assert effects.result == {"outcome": "waitlist", "appointment_id": "m-1", "practice": PRACTICE}
    assert effects.writes == ()
    assert effects.once is not None
    assert effects.once.write.item["status"] == "waitlist"
    assert effects.once.answer(effects.once.write.item) == effects.result


@pytest.mark.parametrize("existing", [None, {"appointment_id": "m-1", "status": "cancelled"}])
def test_booking_is_refused_when_window_has_passed(existing: dict[str, Any] | None) -> None:
    effects = allocation.window_passed(request(), existing)
    assert effects.all_writes == ()
    refused = {"outcome": "refused", "appointment_id": "m-1", "reason": "window_passed"}
    assert effects.result == ({"outcome": "cancelled", "appointment_id": "m-1"} if existing else refused)


def test_waitlisted_booking_stays_when_window_has_passed() -> None:
    """The first copy was answered so. A later copy is not refused."""
    once = allocation.book(request(), None, NOW).once
    assert once is not None
    effects = allocation.window_passed(request(), once.write.item)
    assert effects.all_writes == ()
    assert effects.result == {"outcome": "waitlist", "appointment_id": "m-1", "practice": PRACTICE}


def answer_to(other: BookRequest, appointment: Item) -> Result:
    once = allocation.book(other, None, NOW).once
    assert once is not None
    return once.answer(appointment)


def test_appointment_answers_all_when_it_has_no_hash() -> None:
    once = allocation.book(request(), None, NOW).once
    assert once is not None
    unsaid = {name: value for name, value in once.write.item.items() if name != "payload_hash"}
    other = parse_message("m-1", "another", booking())
    assert isinstance(other, BookRequest)
    assert answer_to(other, unsaid) == once.answer(unsaid) == once.answer(once.write.item)


CANCEL = CancelRequest("c-1", "hash", "m-1")
CANCELLED = {"status": "cancelled", "updated": NOW_MS, "cancelled_by": "c-1"}


SLOT = slot_item(0)


def made(key: str | None) -> Item:
    """Return the appointment of a booking that took this slot, or none."""
    once = allocation.book(request(), key, NOW).once
    assert once is not None
    return once.write.item


@pytest.mark.parametrize(
    ("existing", "writes"),
    [
        (None, [Put("appointments", {"appointment_id": "m-1", "created": NOW_MS, **CANCELLED}, key="appointment_id")]),
        (
            made(SLOT["free_key"]),
            [
                Update("appointments", {"appointment_id": "m-1"}, expect={"status": "booked"}, set=CANCELLED),
                Update(
                    "slots",
                    {"practice": PRACTICE, "slot_id": SLOT["slot_id"]},
                    expect={"status": "busy", "appointment_id": "m-1"},
                    set={"status": "free", "free_key": SLOT["free_key"]},
                    remove=("appointment_id",),
                ),
            ],
        ),
        (
            made(None),
            [Update("appointments", {"appointment_id": "m-1"}, expect={"status": "waitlist"}, set=CANCELLED)],
        ),
        ({"appointment_id": "m-1", **CANCELLED}, []),
        # After the ledger row expires, only the appointment shows which request cancelled it.
        ({**made(SLOT["free_key"]), **CANCELLED, "cancelled_by": "c-0"}, []),
    ],
    ids=["missing", "booked", "waitlisted", "cancelled", "cancelled by another"],
)
def test_cancellation_frees_the_slot_and_keeps_the_first_canceller(existing: Item | None, writes: list[Any]) -> None:
    effects = allocation.cancel(CANCEL, existing, NOW)
    assert list(effects.all_writes) == writes
    assert effects.result == {"outcome": "cancelled", "appointment_id": "m-1"}


# The keys of free slots, and the choice among them.

times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda time: time.replace(microsecond=0, tzinfo=UTC)
)
texts = st.text(min_size=1, max_size=20)


def keys(count: int) -> list[str]:
    return [slot_item(number)["free_key"] for number in range(count)]


def key(start: str, channel: str = CHANNEL, service: str = SERVICE) -> str:
    times = {"start": start, "end": "2099-11-23T23:00:00Z"}
    return free_key({"delivery_channel": channel, "service_type": service, **times, "slot_id": "s"})


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
