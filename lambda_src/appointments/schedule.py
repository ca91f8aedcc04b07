"""A practice's slots: how they are found, and which one a request takes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from appointments.messages import BookRequest

FREE_SLOTS_INDEX = "free_slots"
"""Index of the slots table: only free slots have a `free_key`, so it holds no others."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A slot that was free when it was read. `start` and `end` are UTC, `2026-11-23T08:00:00Z`."""

    practice: str
    slot_id: str
    start: str
    end: str
    delivery_channel: str
    service_type: str

    @property
    def free_key(self) -> str:
        """Its sort key in the index."""
        return free_key(self.delivery_channel, self.service_type, self.start, self.slot_id)


def utc_text(time: datetime) -> str:
    """A UTC time as the tables spell it; such texts sort by time."""
    return time.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def free_key(delivery_channel: str, service_type: str, start: str, slot_id: str = "") -> str:
    """The sort key of a free slot: one channel and service stand together, earliest first."""
    return f"{delivery_channel}#{service_type}#{start}#{slot_id}"


def free_key_range(request: BookRequest, now: datetime) -> tuple[str, str]:
    """The keys between which every slot lies that suits the request: not before `now`, before `not_after`."""
    earliest = utc_text(max(request.not_before, now))
    # A bound without a slot_id sorts before every slot at that time: the first is included, the last excluded.
    return (
        free_key(request.delivery_channel, request.service_type, earliest),
        free_key(request.delivery_channel, request.service_type, utc_text(request.not_after)),
    )


def choose(message_id: str, candidates: Sequence[FreeSlot]) -> FreeSlot:
    """One of the candidates by rendezvous hash: each request prefers another, so that they seldom collide.

    The same request makes the same choice from the same candidates, and keeps it while its slot is still free.
    """
    return max(candidates, key=lambda slot: _weight(message_id, slot))


def _weight(message_id: str, slot: FreeSlot) -> bytes:
    pair = f"{message_id}|{slot.practice}|{slot.slot_id}"
    return hashlib.blake2b(pair.encode(), digest_size=8).digest()
