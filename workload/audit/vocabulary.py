"""The codes that keep the facts of appointments and slots small."""

from __future__ import annotations

from enum import IntEnum

from oneslot.pipeline.vocabulary import FIRST_OWN_KIND, IN_PROGRESS, UNKNOWN_OUTCOME


class OwnKind(IntEnum):
    """The statement that a fact makes about its key, beside those of `oneslot.pipeline.vocabulary.Kind`."""

    EXPECTS_CANCELLED = FIRST_OWN_KIND  # a COMPLETE row says that this appointment was cancelled
    APPOINTMENT = FIRST_OWN_KIND + 1  # the appointment of this request
    CANCELLED = FIRST_OWN_KIND + 2  # an appointment says that this request cancelled it, perhaps before it was booked
    HOLDING = FIRST_OWN_KIND + 3  # a booked appointment says that it holds this slot
    SLOT = FIRST_OWN_KIND + 4  # the slot itself
    HELD = FIRST_OWN_KIND + 5  # a slot names this appointment


class Outcome(IntEnum):
    """`ledger.result.outcome`, and the first four in the delivery log."""

    IN_PROGRESS = IN_PROGRESS
    BOOKED = 1
    WAITLIST = 2
    CANCELLED = 3
    REFUSED = 4
    CANCELLED_OTHER = 5  # the request was a cancellation, and names another request's appointment
    UNKNOWN = UNKNOWN_OUTCOME


ANSWERS = {word: Outcome[word.upper()] for word in ("booked", "waitlist", "cancelled", "refused")}


class AppointmentStatus(IntEnum):
    """`appointments.status`. A tombstone is a cancelled appointment that never had a booking."""

    BOOKED = 1
    WAITLIST = 2
    CANCELLED = 3
    TOMBSTONE = 4


class SlotStatus(IntEnum):
    """`slots.status`. A free slot is broken if it names an appointment or its free key is wrong."""

    FREE = 1
    BUSY = 2
    BROKEN = 3


class Channel(IntEnum):
    """`delivery_channel`."""

    IN_PERSON = 1
    TELEPHONE = 2
    VIDEO = 3
    OTHER = 9
