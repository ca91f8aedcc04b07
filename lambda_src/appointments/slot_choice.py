"""A practice's slots: how they are found, and which one a request takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from appointments.free_key import kind
from appointments.messages import BookRequest

FREE_SLOTS_INDEX = "free_slots"
"""Index of the slots table, of keys only: only free slots have a `free_key`, so it holds no others."""


class UnreadableFreeKey(ValueError):
    """A row of the slots table has a `free_key` that does not say start, end and id."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A slot that was free when it was read. `start` and `end` are UTC, `2026-11-23T08:00:00Z`."""

    slot_id: str
    start: str
    end: str


def utc_text(time: datetime) -> str:
    """A UTC time as the tables spell it; such texts sort by time."""
    return time.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def free_key_range(request: BookRequest, now: datetime) -> tuple[str, str]:
    """The keys between which every slot lies that suits the request: not before `now`, before `not_after`."""
    wanted = kind(request.delivery_channel, request.service_type)
    # A bound is only the start of a key and sorts before every slot at that time: the first is included, the last excluded.
    return wanted + utc_text(max(request.not_before, now)), wanted + utc_text(request.not_after)


def free_slot(request: BookRequest, key: str) -> FreeSlot:
    """What a key says that lies in the request's range. Raises `UnreadableFreeKey` for one that `free_key` did not make."""
    # Neither time has a "#"; what stands before and after them may.
    said = key.removeprefix(kind(request.delivery_channel, request.service_type))
    try:
        start, end, slot_id = said.split("#", 2)
    except ValueError:
        reason = f"practice {request.practice} has a slot whose free_key is {key!r}; write it anew"
        raise UnreadableFreeKey(reason) from None
    return FreeSlot(slot_id, start, end)


def choose(request: BookRequest, candidates: Iterable[str]) -> str:
    """One of the free keys by rendezvous hash: each request prefers another, so that they seldom collide.

    The same request makes the same choice from the same candidates, and keeps it while its slot is still free.
    """
    return max(candidates, key=lambda key: _weight(request, key))


def _weight(request: BookRequest, key: str) -> bytes:
    return hashlib.blake2b(f"{request.message_id}|{request.practice}|{key}".encode(), digest_size=8).digest()
