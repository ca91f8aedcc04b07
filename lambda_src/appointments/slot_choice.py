"""Slot choice: the keys among which a request's slots lie, and the one that it takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from appointments.messages import BookRequest

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
