"""The scenarios of group commit, and the budgets of all scenarios: short for `make test`, full for `make -C lab explore`.

Group commit's batches of two are delivered again as a batch or one by one. A batch of two is the smallest that is
committed together. A record alone is committed alone, so both ways meet here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lab.explore import scenarios
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
from oneslot.explorer.scenario import Scenario

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


Size = Sequence[int]
"""Faults, lease ends, and deliveries of the first message if they differ from the scenario's. None given: all as there."""

ALONE: Sequence[tuple[Scenario, Sequence[Size], Sequence[Size]]] = (
    *((scenario, [()], [()]) for scenario in scenarios.ALONE),
    (scenarios.ONE_REQUEST, [(1, 1, 3)], [(2, 2, 3), (1, 1, 4)]),
    (scenarios.DOMAIN_EXCEPTION, [()], [(2, 2, 3)]),
    (scenarios.RELEASED, [()], [()]),
    (scenarios.OTHER_CONTENT, [()], [(2, 1)]),
    (scenarios.UNKNOWN_PRACTICE, [()], [(2, 1)]),
    (scenarios.FORGOTTEN, [()], [(2, 1)]),
    (scenarios.FORGOTTEN_AND_LATE, [()], [(2, 1)]),
    (scenarios.FORGOTTEN_OTHER, [(1, 0)], [(2, 1)]),
    (scenarios.FORGOTTEN_OTHER_AND_LATE, [(1, 0)], [(2, 1)]),
    (scenarios.FORGOTTEN_CANCELLATION, [(1, 0)], [(1, 1)]),
    (scenarios.TOO_LATE, [(1, 1)], [(1, 2)]),
    (scenarios.SAME_SLOT, [()], [(1, 1)]),
    (scenarios.LAST_SLOT, [(1, 0)], [(2, 1)]),
    (scenarios.BOOK_AND_CANCEL, [(1, 0)], [(2, 1)]),
    (scenarios.CANCEL_TWICE, [(0, 1)], [(1, 1)]),
    (scenarios.CANCEL_WAITING, [()], [(2, 0)]),
    (scenarios.SENT_TWICE, [()], [(1, 1)]),
    (scenarios.BATCH, [(1, 0)], [(2, 1)]),
    (scenarios.BATCH_SIDE_BY_SIDE, [(0, 0)], [(1, 0)]),
    (scenarios.APART, [], [(2, 1)]),
    (scenarios.LAST_SLOT_APART, [], [(1, 1)]),
    (scenarios.BOOK_AND_CANCEL_APART, [], [(1, 1)]),
)
"""Scenarios of single records: their short sizes, which take less than a minute, and their full ones, which take minutes."""

GROUPS: Sequence[tuple[Scenario, Sequence[Size], Sequence[Size]]] = (
    (GROUP_BY_ITSELF, [(1, 0)], [(1, 0)]),
    (BATCH_IN_GROUP, [(1, 0)], [(1, 1)]),
    (GROUP, [(1, 0), (0, 1)], [(1, 1)]),
    (GROUP_TWICE, [(0, 0)], [(1, 0), (1, 2)]),
    (GROUP_LAST_SLOT, [(0, 0)], [(1, 0)]),
    (GROUP_CANCELLED, [(0, 1)], [(1, 1)]),
    (GROUP_OTHER_CONTENT, [(0, 0)], [(1, 0)]),
    (GROUP_FORGOTTEN, [(0, 0)], [(1, 1)]),
    (GROUP_FORGOTTEN_OTHER, [(0, 0)], [(1, 1)]),
    (GROUP_RAISING, [(1, 0)], [(1, 1)]),
    (GROUP_UNKNOWN, [(0, 0)], [(1, 0)]),
    (SENT_TWICE_IN_GROUP, [(1, 0)], [(1, 1)]),
    (GROUP_SIDE_BY_SIDE, [], [(1, 0)]),
    (GROUP_BESIDE_ITSELF, [(0, 0)], [(1, 0)]),
    (GROUP_CANCELLED_SIDE_BY_SIDE, [(0, 0)], [(1, 0)]),
)
"""Those of group commit: half a minute, and minutes."""


def _sized(scenario: Scenario, sizes: Iterable[Size]) -> list[Scenario]:
    found = []
    for faults, expiries, *deliveries in (size or (scenario.faults, scenario.expiries) for size in sizes):
        repeated = ((0,),) * deliveries[0] if deliveries else scenario.deliveries
        found.append(replace(scenario, faults=faults, expiries=expiries, deliveries=repeated))
    return found


SHORT, GROUPS_SHORT = ([one for each, sizes, _ in given for one in _sized(each, sizes)] for given in (ALONE, GROUPS))
FULL, GROUPS_FULL = ([one for each, _, sizes in given for one in _sized(each, sizes)] for given in (ALONE, GROUPS))
BY_NAME = {scenario.name: scenario for scenario in (*FULL, *GROUPS_FULL)}
