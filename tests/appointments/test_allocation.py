"""The decision: what was read, and the writes and the answer that follow from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from appointments import allocation
from appointments.messages import BookRequest, CancelRequest, parse_message
from oneslot.runtime.effects import Item, Put, Result, Update
from tests.kits.consumer import CHANNEL, NHS_NUMBER, PRACTICE, SERVICE, booking, slot_item

NOW = datetime(2026, 11, 20, 8, 0, 0, 500_000, tzinfo=UTC)
NOW_MS = 1_795_161_600_500


def request() -> BookRequest:
    parsed = parse_message("m-1", "hash", booking())
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
