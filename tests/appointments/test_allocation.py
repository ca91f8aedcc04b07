"""The decision, as a table of what was read and what is then to be written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from appointments import allocation
from appointments.messages import BookRequest, CancelRequest, parse_message
from oneslot.runtime.effects import Item, Put, Result, Unprocessable, Update
from tests.kits.consumer import CHANNEL, NHS_NUMBER, PRACTICE, SERVICE, booking, slot_item

NOW = datetime(2026, 11, 20, 8, 0, 0, 500_000, tzinfo=UTC)
NOW_MS = 1_795_161_600_500


def request() -> BookRequest:
    parsed = parse_message("m-1", "hash", booking())
    assert isinstance(parsed, BookRequest)
    return parsed


def test_a_free_slot_is_taken_and_the_appointment_put_once() -> None:
    slot = slot_item(0)
    effects = allocation.book(request(), [slot["free_key"]], NOW)
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
        "appointment_id",
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
    )
    assert effects.once.answer(effects.once.write.item) == effects.result


def test_no_free_slot_is_a_place_on_the_waitlist() -> None:
    effects = allocation.book(request(), [], NOW)
    assert effects.result == {"outcome": "waitlist", "appointment_id": "m-1", "practice": PRACTICE}
    assert effects.writes == ()
    assert effects.once is not None
    assert effects.once.write.item["status"] == "waitlist"
    assert effects.once.answer(effects.once.write.item) == effects.result


def test_no_result_names_a_patient() -> None:
    for candidates in ([], [slot_item(0)["free_key"]]):
        assert NHS_NUMBER not in repr(allocation.book(request(), candidates, NOW).result)


@pytest.mark.parametrize("existing", [None, {"appointment_id": "m-1", "status": "cancelled"}])
def test_a_window_that_has_passed(existing: dict[str, Any] | None) -> None:
    effects = allocation.window_passed(request(), existing)
    assert effects.all_writes == ()
    refused = {"outcome": "refused", "appointment_id": "m-1", "reason": "window_passed"}
    assert effects.result == ({"outcome": "cancelled", "appointment_id": "m-1"} if existing else refused)


def test_a_window_that_has_passed_for_one_that_waited_is_its_waiting() -> None:
    """It was answered so when it came first; its later copy is not refused."""
    once = allocation.book(request(), [], NOW).once
    assert once is not None
    effects = allocation.window_passed(request(), once.write.item)
    assert effects.all_writes == ()
    assert effects.result == {"outcome": "waitlist", "appointment_id": "m-1", "practice": PRACTICE}


def test_another_content_does_not_get_the_answer_of_the_appointment_under_its_id() -> None:
    once = allocation.book(request(), [slot_item(0)["free_key"]], NOW).once
    other = parse_message("m-1", "another", booking())
    assert once is not None
    assert isinstance(other, BookRequest)
    for answer in (lambda: allocation.window_passed(other, once.write.item), lambda: answer_to(other, once.write.item)):
        with pytest.raises(Unprocessable) as problem:
            answer()
        assert problem.value.reason == "conflict"
    assert allocation.window_passed(request(), once.write.item).result == once.answer(once.write.item)


def answer_to(other: BookRequest, appointment: Item) -> Result:
    once = allocation.book(other, [], NOW).once
    assert once is not None
    return once.answer(appointment)


def test_an_appointment_that_does_not_say_what_was_asked_answers_all() -> None:
    once = allocation.book(request(), [], NOW).once
    assert once is not None
    unsaid = {name: value for name, value in once.write.item.items() if name != "payload_hash"}
    other = parse_message("m-1", "another", booking())
    assert isinstance(other, BookRequest)
    assert answer_to(other, unsaid) == once.answer(unsaid) == once.answer(once.write.item)


CANCEL = CancelRequest("c-1", "hash", "m-1")
CANCELLED = {"status": "cancelled", "updated": NOW_MS, "cancelled_by": "c-1"}


def test_cancelling_what_is_not_there_leaves_a_cancelled_appointment() -> None:
    effects = allocation.cancel(CANCEL, None, NOW)
    assert effects.all_writes == (
        Put("appointments", "appointment_id", {"appointment_id": "m-1", "created": NOW_MS, **CANCELLED}),
    )


def test_cancelling_a_booking_frees_its_slot() -> None:
    slot = slot_item(0)
    once = allocation.book(request(), [slot["free_key"]], NOW).once
    assert once is not None
    effects = allocation.cancel(CANCEL, once.write.item, NOW)
    assert effects.all_writes == (
        Update("appointments", {"appointment_id": "m-1"}, expect={"status": "booked"}, set=CANCELLED),
        Update(
            "slots",
            {"practice": PRACTICE, "slot_id": slot["slot_id"]},
            expect={"status": "busy", "appointment_id": "m-1"},
            set={"status": "free", "free_key": slot["free_key"]},
            remove=("appointment_id",),
        ),
    )


@pytest.mark.parametrize("now", ["2099-11-23T07:59:59Z", "2099-11-23T08:00:00Z", "2100-01-01T00:00:00Z"])
def test_whenever_it_is_cancelled_the_slot_is_freed_with_it(now: str) -> None:
    """Also one that has begun: busy, it would belong to an appointment that is none."""
    once = allocation.book(request(), [slot_item(0)["free_key"]], NOW).once
    assert once is not None
    effects = allocation.cancel(CANCEL, once.write.item, datetime.fromisoformat(now))
    assert [(write.table, write.set["status"]) for write in effects.all_writes if isinstance(write, Update)] == [
        ("appointments", "cancelled"),
        ("slots", "free"),
    ]


def test_cancelling_a_place_on_the_waitlist_touches_no_slot() -> None:
    once = allocation.book(request(), [], NOW).once
    assert once is not None
    effects = allocation.cancel(CANCEL, once.write.item, NOW)
    assert effects.all_writes == (
        Update("appointments", {"appointment_id": "m-1"}, expect={"status": "waitlist"}, set=CANCELLED),
    )


def test_cancelling_twice_writes_nothing_the_second_time() -> None:
    effects = allocation.cancel(CANCEL, {"appointment_id": "m-1", **CANCELLED}, NOW)
    assert effects.all_writes == ()
    assert effects.result == {"outcome": "cancelled", "appointment_id": "m-1"}


def test_cancelling_what_another_cancelled_leaves_it_as_the_first_one_left_it() -> None:
    """The first one's name stays: of its answer the appointment is the only witness once the ledger has forgotten it."""
    once = allocation.book(request(), [slot_item(0)["free_key"]], NOW).once
    assert once is not None
    cancelled_by_another = {**once.write.item, **CANCELLED, "cancelled_by": "c-0"}
    assert allocation.cancel(CANCEL, cancelled_by_another, NOW).all_writes == ()
