"""The scenarios of our handler, each message a request of its own invocation or of a batch. `budgets.py` sizes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lab.explore.faults import DENIED, READS, THROTTLED, all_faults, mild_faults
from lab.explore.practice import PRACTICE, TABLES, CountingServices, booking, cancellation, free_slots
from oneslot.explorer.faults import CRASHES, NEVER, TIMED_OUT, Choice
from oneslot.explorer.scenario import Scenario
from oneslot.explorer.world import ApiCall, SqsMessage, to_text
from oneslot.runtime.record import payload_hash

BOOKING = booking("m-1")
# Of two slots, both requests prefer the same one.
SAME_WISH = ("m-1", "m-8")
# The same request sent again by its producer: another SQS message, with other spacing.
SENT_AGAIN = SqsMessage(BOOKING.message_id, BOOKING.body.replace(": ", ":"))

# Seconds before its only slot starts, and minutes before its window ends.
JUST_BEFORE = int(datetime(2026, 11, 23, 7, 59, 50, tzinfo=UTC).timestamp() * 1000)
HURRIED = booking("m-1", not_after="2026-11-23T08:05:00Z")

_scenario = partial(Scenario, tables=TABLES, services=CountingServices(TABLES), choices=all_faults)


def raising_faults(request: ApiCall) -> tuple[Choice, ...]:
    """Return faults that make a decision raise, a denied read and a malformed slot, and the throttling of writes."""
    operation, _ = request.parts
    if operation != "query":
        return (THROTTLED,)
    slot = {"practice": {"S": PRACTICE}, "slot_id": {"S": "malformed"}}
    text = to_text({"answer": {"Items": [slot], "Count": 1}})
    return (DENIED, Choice("the answer holds a malformed slot", NEVER, observation=text))


def domain_faults(request: ApiCall) -> tuple[Choice, ...]:
    """Return the faults of a decision, and a crash or a timeout of each write."""
    operation, _ = request.parts
    return raising_faults(request) if operation in READS else (CRASHES[0], TIMED_OUT)


def _held_slot() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the rows of an old booking: its appointment and slot exist, its ledger row has expired."""
    slot, other = free_slots(2)
    held = {**slot, "status": "busy", "appointment_id": "m-1"}
    del held["free_key"]
    appointment = {
        "appointment_id": "m-1",
        "status": "booked",
        "practice": PRACTICE,
        "nhs_number": "9990000018",
        "not_before": "2026-11-23T08:00:00Z",
        "not_after": "2026-11-24T08:00:00Z",
        "payload_hash": payload_hash(json.loads(BOOKING.body)),
        "created": JUST_BEFORE - 40 * 86_400_000,
        "updated": JUST_BEFORE - 40 * 86_400_000,
        **{name: slot[name] for name in ("slot_id", "start", "end", "delivery_channel", "service_type")},
    }
    return {"slots": [held, other], "appointments": [appointment]}


ONE_REQUEST = _scenario(
    name="one request",
    sentence="one booking, delivered again and again while two slots are free",
    messages=(BOOKING,),
    deliveries=((0,), (0,)),
    before={"slots": free_slots(2)},
    ends_with=("booked", "busy", "free"),
)
LAST_SLOT = _scenario(
    name="the last slot",
    sentence="two requests race for one slot: one is booked, the other waits",
    messages=(BOOKING, booking("m-2", 1)),
    deliveries=((0,), (0,), (1,)),
    before={"slots": free_slots(1)},
    ends_with=("booked", "busy", "waitlist"),
)
SAME_SLOT = replace(
    ONE_REQUEST,
    name="the same wish",
    sentence="two requests ask for the same one of two slots: both are booked",
    messages=tuple(booking(message_id, patient) for patient, message_id in enumerate(SAME_WISH)),
    deliveries=((0,), (1,)),
    ends_with=("booked", "booked", "busy", "busy"),
)
BOOK_AND_CANCEL = _scenario(
    name="book and cancel",
    sentence="a booking and its cancellation in any order, the booking twice: cancelled, and the slot free",
    messages=(BOOKING, cancellation("c-1", "m-1")),
    deliveries=((0,), (0,), (1,)),
    before={"slots": free_slots(1)},
    ends_with=("cancelled", "free"),
)
CANCEL_TWICE = replace(
    BOOK_AND_CANCEL,
    name="cancel twice",
    sentence="a booking and two cancellations of it: both are answered, the slot is freed once",
    messages=(BOOKING, cancellation("c-1", "m-1"), cancellation("c-2", "m-1")),
    deliveries=((0,), (1,), (2,)),
)
CANCEL_WAITING = replace(
    BOOK_AND_CANCEL,
    name="cancel a waiting request",
    sentence="a booking for which there is no slot, and its cancellation",
    messages=(booking("m-1", delivery_channel="Video"), cancellation("c-1", "m-1")),
    deliveries=((0,), (1,)),
)
BATCH = replace(
    LAST_SLOT,
    name="a batch",
    sentence="two requests in one invocation, one after the other, and one of them once more alone",
    deliveries=((0, 1), (0,)),
)
BATCH_SIDE_BY_SIDE = replace(
    BATCH,
    name="a batch side by side",
    sentence="two requests in one invocation, on threads of their own, and one of them once more alone",
    side_by_side=True,
    expiries=0,
)
SENT_TWICE = replace(
    ONE_REQUEST,
    name="sent twice",
    sentence="the same request as two SQS messages, both in one batch, and one of them once more",
    messages=(BOOKING, SENT_AGAIN),
    deliveries=((0, 1), (0,)),
)
OTHER_CONTENT = replace(
    ONE_REQUEST,
    name="other content",
    sentence="two messages with the same id and different content: one takes effect, the other is quarantined",
    messages=(BOOKING, booking("m-1", 1)),
    deliveries=((0,), (1,)),
)
DOMAIN_EXCEPTION = replace(
    ONE_REQUEST,
    name="an exception in the domain",
    sentence="the decision raises, the claim is released, another delivery takes over at once",
    choices=domain_faults,
)
UNKNOWN_PRACTICE = replace(
    ONE_REQUEST,
    name="an unknown practice",
    sentence="a booking that can never succeed: quarantined with its reason, and its claim released",
    messages=(booking("m-1", practice="B81002"),),
    before={"slots": free_slots(1)},
    ends_with=("free",),
)
RELEASED = replace(
    ONE_REQUEST,
    name="a released claim",
    sentence="the decision raises: the next delivery continues the request without waiting for the lease",
    deliveries=((0,),),
    before={"slots": free_slots(1)},
    faults=2,
    expiries=0,
    choices=raising_faults,
    redeliveries=1,
    ends_with=("booked", "busy"),
)
FORGOTTEN = replace(
    ONE_REQUEST,
    name="a forgotten booking",
    sentence="its ledger row has expired, its appointment exists: the same booking is delivered",
    before=_held_slot(),
    exempt=("I5r",),
)
FORGOTTEN_OTHER = replace(
    FORGOTTEN,
    name="a forgotten booking's id",
    sentence="the id of a forgotten booking with other content, and the booking itself: no answer is wrong",
    messages=(BOOKING, booking("m-1", 1)),
    deliveries=((0,), (1,)),
    # The claim of the first one stays; a dead letter with an appointment is rightly forgotten.
    exempt=("I5r", "I11"),
)
# Longer than a lease, so that a lease is live for one consumer and over for the other.
MINUTE_MS = 60_000


def _apart(scenario: Scenario) -> Scenario:
    return replace(
        scenario,
        name=f"{scenario.name}, clocks apart",
        sentence="the same, and one consumer's clock is a minute ahead: it takes over leases that are live",
        clocks=(0, MINUTE_MS, 0)[: len(scenario.deliveries)],
        exempt=("E2",),
    )


APART, LAST_SLOT_APART, BOOK_AND_CANCEL_APART = map(_apart, (ONE_REQUEST, LAST_SLOT, BOOK_AND_CANCEL))


def _late(scenario: Scenario) -> Scenario:
    return replace(
        scenario,
        name=f"{scenario.name}, too late",
        sentence="the same, after the requested windows have passed",
        start=JUST_BEFORE + 2 * 86_400_000,
    )


FORGOTTEN_AND_LATE, FORGOTTEN_OTHER_AND_LATE = map(_late, (FORGOTTEN, FORGOTTEN_OTHER))
FORGOTTEN_CANCELLATION = replace(
    FORGOTTEN,
    ends_with=("cancelled", "free", "free"),
    name="a forgotten booking, cancelled",
    sentence="the forgotten booking is delivered, together with its cancellation",
    messages=(BOOKING, cancellation("c-1", "m-1")),
    deliveries=((0,), (1,)),
)
TOO_LATE = _scenario(
    name="the window passes",
    sentence="during its deliveries first the slot and then the requested window passes",
    messages=(HURRIED,),
    deliveries=((0,), (0,)),
    before={"slots": free_slots(1)},
    expiries=2,
    start=JUST_BEFORE,
)


def _alone(name: str, sentence: str, message: SqsMessage, before: Mapping[str, Any]) -> Scenario:
    return _scenario(
        name=name,
        sentence=sentence,
        messages=(message,),
        deliveries=((0,),),
        before=before,
        expiries=0,
        choices=mild_faults,
        ends_by_itself=True,
        exempt=("I5r",),
    )


ALONE = (
    _alone("alone: book", "E1 for a booking: one mild fault, one delivery", BOOKING, {"slots": free_slots(1)}),
    _alone(
        "alone: wait", "E1 for one with no slot", booking("m-1", delivery_channel="Video"), {"slots": free_slots(1)}
    ),
    _alone("alone: cancel", "E1 for a cancellation", cancellation("c-1", "m-1"), _held_slot()),
    _alone("alone: cancel nothing", "E1 for a cancellation that came first", cancellation("c-1", "m-1"), {}),
    _alone("alone: again", "E1 for a forgotten booking", BOOKING, _held_slot()),
)
