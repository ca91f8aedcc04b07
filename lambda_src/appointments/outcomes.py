"""The outcomes of a request, a closed union. A duplicate gets the first delivery's outcome."""

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
    """No slot was free in the requested window; the request is recorded and waits."""

    name: ClassVar[str] = "waitlist"
    appointment_id: str
    practice: str


@dataclass(frozen=True)
class Cancelled:
    """The appointment is cancelled, whether or not its booking has arrived yet."""

    name: ClassVar[str] = "cancelled"
    appointment_id: str


@dataclass(frozen=True)
class Refusal:
    """The request cannot be met; the refusal is recorded as its answer."""

    name: ClassVar[str] = "refused"
    appointment_id: str
    reason: str


Outcome = Booked | Waitlisted | Cancelled | Refusal

ANSWERED = frozenset(outcome.name for outcome in get_args(Outcome))
"""The outcomes' names, as the delivery log shows them for a delivery that completed its request."""
