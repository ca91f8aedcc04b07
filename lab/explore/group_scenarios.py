"""The scenarios of group commit: batches of two, delivered again as a batch or one by one.

A batch of two is the smallest that is committed together. A record alone is committed alone, so both ways meet here.
"""

from __future__ import annotations

from dataclasses import replace

from lab.explore.faults import mild_faults
from lab.explore.practice import booking
from lab.explore.scenarios import (
    BATCH,
    BOOK_AND_CANCEL,
    BOOKING,
    FORGOTTEN,
    FORGOTTEN_OTHER,
    LAST_SLOT,
    OTHER_CONTENT,
    SAME_SLOT,
    SENT_TWICE,
    domain_faults,
)

BATCH_IN_GROUP = replace(BATCH, name="a batch, in a group")
SENT_TWICE_IN_GROUP = replace(SENT_TWICE, name="sent twice, in a group")
GROUP = replace(
    SAME_SLOT,
    name="a group",
    sentence="two requests for the same one of two slots in one invocation, and one of them once more alone",
    deliveries=((0, 1), (0,)),
)
GROUP_SIDE_BY_SIDE = replace(
    GROUP,
    name="a group side by side",
    sentence="the same, with reads and single records on threads of their own",
    deliveries=((0, 1),),
    side_by_side=True,
)
GROUP_BESIDE_ITSELF = replace(
    GROUP,
    name="a group side by side with a duplicate",
    sentence="one of the two is finished alone before, between or after the look and the reads, which run side by side",
    side_by_side=True,
)
GROUP_TWICE = replace(
    GROUP,
    name="a group, twice",
    sentence="the same two requests in two invocations at the same time: each is answered once, by either",
    deliveries=((0, 1), (0, 1)),
)
GROUP_LAST_SLOT = replace(
    LAST_SLOT,
    name="a group and the last slot",
    sentence="two requests for one slot in one invocation, at the same time as a third",
    messages=(*LAST_SLOT.messages, booking("m-3")),
    deliveries=((0, 1), (2,)),
    ends_with=("booked", "busy", "waitlist", "waitlist"),
)
GROUP_BY_ITSELF = replace(
    GROUP,
    name="alone: a group",
    sentence="E1 for two bookings in one invocation: one mild fault, and both are done",
    deliveries=((0, 1),),
    choices=mild_faults,
    ends_by_itself=True,
)
GROUP_CANCELLED = replace(
    BOOK_AND_CANCEL,
    name="a group that cancels itself",
    sentence="a booking and its cancellation in one invocation, and the booking once more alone",
    deliveries=((0, 1), (0,)),
)
GROUP_CANCELLED_SIDE_BY_SIDE = replace(
    GROUP_CANCELLED,
    name="a group side by side that cancels itself",
    sentence="the same with the look and both reads side by side",
    side_by_side=True,
)
GROUP_OTHER_CONTENT = replace(
    OTHER_CONTENT,
    name="a group with other content",
    sentence="the same id with different content twice in one invocation, beside another request, and once alone",
    messages=(*OTHER_CONTENT.messages, booking("m-2", 1)),
    deliveries=((0, 1, 2), (1,)),
    ends_with=("booked", "booked", "busy", "busy"),
)
GROUP_FORGOTTEN = replace(
    FORGOTTEN,
    name="a group with a forgotten booking",
    sentence="a booking whose ledger row has expired, in one invocation with a new request",
    messages=(BOOKING, booking("m-2", 1)),
    deliveries=((0, 1), (0,)),
    ends_with=("booked", "booked", "busy", "busy"),
)
GROUP_FORGOTTEN_OTHER = replace(
    FORGOTTEN_OTHER,
    name="a group with a forgotten booking's id",
    sentence="the id of a forgotten booking with other content, in one invocation with a new request",
    messages=(booking("m-1", 1), booking("m-2", 1)),
    deliveries=((0, 1), (0,)),
    ends_with=("booked", "booked", "busy", "busy"),
)
GROUP_RAISING = replace(
    GROUP,
    name="a group with an exception",
    sentence="a read of the decision fails, or finds a malformed slot: no record is worse off than without the group",
    messages=(BOOKING, booking("m-8", 1)),
    choices=domain_faults,
    ends_with=("booked", "booked", "busy", "busy"),
)
GROUP_UNKNOWN = replace(
    GROUP,
    name="a group with an unknown practice",
    sentence="a booking that can never succeed in one invocation with one that can: quarantined, and booked",
    messages=(BOOKING, booking("m-8", 1, practice="B81002")),
    ends_with=("booked", "busy", "free"),
)
