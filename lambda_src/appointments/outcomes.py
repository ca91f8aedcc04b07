"""What a request can come to: a closed union. A duplicate has no outcome of its own; it gets the first one's again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args


@dataclass(frozen=True)
class Booked:
    """The request has this slot."""

    name: ClassVar[str] = "booked"
    appointment_id: str
    practice: str
    slot_id: str
    start: str
    end: str


@dataclass(frozen=True)
class Waitlisted:
    """No slot was free in the window that was asked for; the request is recorded and waits."""

    name: ClassVar[str] = "waitlist"
    appointment_id: str
    practice: str


@dataclass(frozen=True)
class Cancelled:
    """The appointment is cancelled, whether or not its booking has arrived yet."""

    name: ClassVar[str] = "cancelled"
    appointment_id: str


@dataclass(frozen=True)
class Refused:
    """The request cannot be met, and this is its recorded answer."""

    name: ClassVar[str] = "refused"
    appointment_id: str
    reason: str


Outcome = Booked | Waitlisted | Cancelled | Refused

ANSWERED = frozenset(outcome.name for outcome in get_args(Outcome))
"""The names of all outcomes: what the delivery log says of a delivery that completed its request."""
