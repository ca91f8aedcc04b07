"""The decision: a request and the rows read → its effects. One function each for book, window passed and cancel.

A free slot's key holds all that a booking needs. A request looks between two keys, and chooses one of those it finds.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from appointments.messages import BookRequest, CancelRequest
from appointments.outcomes import Booked, Cancelled, Outcome, Refusal, Waitlisted
from appointments.statuses import BOOKED, BUSY, CANCELLED, FREE, WAITLIST
from oneslot.runtime.effects import Effects, Once, Put, Update, conflict

SLOTS = "slots"
APPOINTMENTS = "appointments"
"""Logical names of the tables."""

FREE_SLOTS_INDEX = "free_slots"
"""Index of the slots table, keys only. Only free slots have a `free_key`, so it holds no others."""


class UnreadableFreeKey(ValueError):
    """A row of the slots table has a `free_key` without start, end and id."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A slot that was free when it was read. `start` and `end` are UTC: `2026-11-23T08:00:00Z`."""

    slot_id: str
    start: str
    end: str


def free_key(slot: Mapping[str, Any]) -> str:
    """Return the sort key of a free slot: grouped by channel and service, earliest first.

    `slot` is a row of the slots table, or the appointment that holds it. The key holds all that a booking needs, because
    each further attribute of an answer costs CPU. A free slot that moves needs a new key.
    """
    return f"{kind(slot['delivery_channel'], slot['service_type'])}{slot['start']}#{slot['end']}#{slot['slot_id']}"


def kind(delivery_channel: str, service_type: str) -> str:
    """Return the beginning of the keys of all free slots of this channel and service."""
    return f"{delivery_channel}#{service_type}#"


def utc_text(time: datetime) -> str:
    """Return a UTC time as the tables hold it; such texts sort by time."""
    return time.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def free_key_range(request: BookRequest, now: datetime) -> tuple[str, str]:
    """Return the keys between which all suitable slots lie: not before `now`, before `not_after`."""
    wanted = kind(request.delivery_channel, request.service_type)
    # A bound is the beginning of a key and sorts before every slot at its time: the first time is included, the last excluded.
    return wanted + utc_text(max(request.not_before, now)), wanted + utc_text(request.not_after)


def free_slot(request: BookRequest, key: str) -> FreeSlot:
    """Return the slot that a key in the request's range names.

    Raises:
        UnreadableFreeKey: for a key that `free_key` did not make.
    """
    # The times hold no "#"; the kind before and the id after them may.
    rest = key.removeprefix(kind(request.delivery_channel, request.service_type))
    try:
        start, end, slot_id = rest.split("#", 2)
    except ValueError:
        reason = (
            f"practice {request.practice} has a slot with the unreadable free_key {key!r}; write its free_key again"
        )
        raise UnreadableFreeKey(reason) from None
    return FreeSlot(slot_id, start, end)


def choose(request: BookRequest, candidates: Iterable[str]) -> str:
    """Choose one of the free keys by rendezvous hash, so that requests seldom collide.

    A request makes the same choice from the same candidates, and keeps it while that slot is free.
    """
    return max(candidates, key=lambda key: _weight(request, key))


def _weight(request: BookRequest, key: str) -> bytes:
    return hashlib.blake2b(f"{request.message_id}|{request.practice}|{key}".encode(), digest_size=8).digest()


def book(request: BookRequest, key: str | None, now: datetime) -> Effects:
    """Take the free slot with this index key, or join the waitlist if there is none.

    The appointment's id is the request's. Putting it `once` prevents a second booking even after the ledger's row has
    expired. It keeps the request's digest, so that another request under the same id is a conflict.
    """
    appointment: dict[str, Any] = {
        "appointment_id": request.message_id,
        "practice": request.practice,
        "nhs_number": request.nhs_number,
        "delivery_channel": request.delivery_channel,
        "service_type": request.service_type,
        "payload_hash": request.payload_hash,
        "created": epoch_ms(now),
        "updated": epoch_ms(now),
        "not_before": utc_text(request.not_before),
        "not_after": utc_text(request.not_after),
    }
    if key is None:
        appointment["status"] = WAITLIST
        waitlisted = _result(Waitlisted(request.message_id, request.practice))
        return Effects(
            waitlisted, once=Once(Put(APPOINTMENTS, appointment, key="appointment_id"), partial(answer_again, request))
        )
    slot = free_slot(request, key)
    appointment |= {"status": BOOKED, "slot_id": slot.slot_id, "start": slot.start, "end": slot.end}
    booked = _result(Booked(request.message_id, request.practice, slot.slot_id, slot.start, slot.end))
    take = Update(
        SLOTS,
        key={"practice": request.practice, "slot_id": slot.slot_id},
        expect={"status": FREE, "free_key": key},  # the key too: the slot may have moved to another time
        set={"status": BUSY, "appointment_id": request.message_id},
        remove=("free_key",),
    )
    return Effects(
        booked, (take,), once=Once(Put(APPOINTMENTS, appointment, key="appointment_id"), partial(answer_again, request))
    )


def window_passed(request: BookRequest, existing: Mapping[str, Any] | None) -> Effects:
    """Refuse a request whose window has passed, unless it was answered before.

    Raises:
        Unprocessable: `conflict`, if another content was answered under its id.
    """
    if existing is not None:
        return Effects(answer_again(request, existing))
    return Effects(_result(Refusal(request.message_id, "window_passed")))


def cancel(request: CancelRequest, existing: Mapping[str, Any] | None, now: datetime) -> Effects:
    """Cancel the appointment and free its slot. If it does not exist yet, put a cancelled one for its booking to find."""
    result = _result(Cancelled(request.appointment_id))
    cancelled = {"status": CANCELLED, "updated": epoch_ms(now), "cancelled_by": request.message_id}
    if existing is None:
        tombstone = {"appointment_id": request.appointment_id, "created": epoch_ms(now), **cancelled}
        return Effects(result, (Put(APPOINTMENTS, tombstone, key="appointment_id"),))
    if existing["status"] == CANCELLED:
        return Effects(result)
    key = {"appointment_id": request.appointment_id}
    withdraw = Update(APPOINTMENTS, key, expect={"status": existing["status"]}, set=cancelled)
    if existing["status"] == WAITLIST:
        return Effects(result, (withdraw,))
    free_slot_again = Update(
        SLOTS,
        key={"practice": existing["practice"], "slot_id": existing["slot_id"]},
        expect={"status": BUSY, "appointment_id": request.appointment_id},
        set={"status": FREE, "free_key": free_key(existing)},
        remove=("appointment_id",),
    )
    return Effects(result, (withdraw, free_slot_again))


def answer_again(request: BookRequest, appointment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a booking whose appointment exists although the ledger's row has expired.

    Raises:
        Unprocessable: `conflict`, if the appointment was made for another content. An appointment without a digest, left
            by an early cancellation or an old version, is not compared.
    """
    if appointment.get("payload_hash", request.payload_hash) != request.payload_hash:
        raise conflict()
    return answer_of(appointment)


def answer_of(appointment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result that an appointment records."""
    match appointment["status"]:
        case "booked":
            names = ("appointment_id", "practice", "slot_id", "start", "end")
            return _result(Booked(*(appointment[name] for name in names)))
        case "waitlist":
            return _result(Waitlisted(appointment["appointment_id"], appointment["practice"]))
        case _:
            return _result(Cancelled(appointment["appointment_id"]))


def epoch_ms(time: datetime) -> int:
    """Return a time as epoch milliseconds."""
    return int(time.timestamp() * 1000)


def _result(outcome: Outcome) -> dict[str, Any]:
    return {"outcome": outcome.name, **vars(outcome)}
