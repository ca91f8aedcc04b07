"""The decision: a request and what was read → its effects. Booked, waitlisted, cancelled or refused, in one place each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from appointments.free_key import free_key
from appointments.messages import BookRequest, CancelRequest
from appointments.outcomes import Booked, Cancelled, Outcome, Refused, Waitlisted
from appointments.schedule import choose, free_slot, utc_text
from appointments.statuses import BOOKED, BUSY, CANCELLED, FREE, WAITLIST
from exactly_once.effects import Effects, Once, Put, Update

SLOTS = "slots"
APPOINTMENTS = "appointments"
"""Logical names of the tables."""


def book(request: BookRequest, candidates: Sequence[str], now: datetime) -> Effects:
    """Take one of the free slots, named by their keys in the index, or go on the waitlist if there is none.

    The appointment's id is the request's: putting it `once` is what makes a second booking impossible even after the
    ledger has forgotten the first.
    """
    appointment: dict[str, Any] = {
        "appointment_id": request.message_id,
        "practice": request.practice,
        "nhs_number": request.nhs_number,
        "delivery_channel": request.delivery_channel,
        "service_type": request.service_type,
        "not_before": utc_text(request.not_before),
        "not_after": utc_text(request.not_after),
        "created": epoch_ms(now),
        "updated": epoch_ms(now),
    }
    if not candidates:
        appointment["status"] = WAITLIST
        return _effects(Waitlisted(request.message_id, request.practice), appointment)
    key = choose(request, candidates)
    slot = free_slot(request, key)
    appointment |= {"status": BOOKED, "slot_id": slot.slot_id, "start": slot.start, "end": slot.end}
    take = Update(
        SLOTS,
        key={"practice": request.practice, "slot_id": slot.slot_id},
        expect={"status": FREE, "free_key": key},  # the key, too: the slot is still at the times that it said
        set={"status": BUSY, "appointment_id": request.message_id},
        remove=("free_key",),
    )
    return _effects(Booked(request.message_id, request.practice, slot.slot_id, slot.start, slot.end), appointment, take)


def window_passed(request: BookRequest, existing: Mapping[str, Any] | None) -> Effects:
    """Refuse a request that came too late for every slot it could take; one that was answered before keeps its answer."""
    if existing is not None:
        return Effects(answer_of(existing))
    return Effects(_result(Refused(request.message_id, "window_passed")))


def cancel(request: CancelRequest, existing: Mapping[str, Any] | None, now: datetime) -> Effects:
    """Cancel the appointment and free its slot; or, if it is not there yet, leave a cancelled one for its booking to find."""
    result = _result(Cancelled(request.appointment_id))
    cancelled = {"status": CANCELLED, "updated": epoch_ms(now), "cancelled_by": request.message_id}
    if existing is None:
        tombstone = {"appointment_id": request.appointment_id, "created": epoch_ms(now), **cancelled}
        return Effects(result, (Put(APPOINTMENTS, "appointment_id", tombstone),))
    if existing["status"] == CANCELLED:
        return Effects(result)
    key = {"appointment_id": request.appointment_id}
    withdraw = Update(APPOINTMENTS, key, expect={"status": existing["status"]}, set=cancelled)
    if existing["status"] == WAITLIST:
        return Effects(result, (withdraw,))
    give_back = Update(
        SLOTS,
        key={"practice": existing["practice"], "slot_id": existing["slot_id"]},
        expect={"status": BUSY, "appointment_id": request.appointment_id},
        set={"status": FREE, "free_key": free_key(existing)},
        remove=("appointment_id",),
    )
    return Effects(result, (withdraw, give_back))


def answer_of(appointment: Mapping[str, Any]) -> dict[str, Any]:
    """The result that an appointment stands for; the answer to a booking which finds that it was made before."""
    match appointment["status"]:
        case "booked":
            names = ("appointment_id", "practice", "slot_id", "start", "end")
            return _result(Booked(*(appointment[name] for name in names)))
        case "waitlist":
            return _result(Waitlisted(appointment["appointment_id"], appointment["practice"]))
        case _:
            return _result(Cancelled(appointment["appointment_id"]))


def epoch_ms(time: datetime) -> int:
    """A time → milliseconds since 1970."""
    return int(time.timestamp() * 1000)


def _effects(outcome: Outcome, appointment: Mapping[str, Any], *writes: Update) -> Effects:
    return Effects(_result(outcome), writes, Once(Put(APPOINTMENTS, "appointment_id", appointment), answer_of))


def _result(outcome: Outcome) -> dict[str, Any]:
    return {"outcome": outcome.name, **vars(outcome)}
