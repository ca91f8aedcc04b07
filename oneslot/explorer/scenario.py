"""What is explored: messages, how they are delivered, what is there before, and how much may go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from appointments.free_key import free_key
from appointments.slot_choice import utc_text
from oneslot.explorer.faults import Choice, all_faults
from oneslot.explorer.process import LEASE_MS, Context, Process, Program
from oneslot.explorer.services.dynamodb import Contents
from oneslot.explorer.world import TABLES, Request, World
from oneslot.runtime.stores.expressions import to_attributes
from verification.scenarios.laws import Laws, OurLaws, law_name
from verification.scenarios.messages import CHANNEL, PRACTICE, SERVICE, SqsMessage
from verification.scenarios.ours import group_program, our_program

NOON = int(datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp() * 1000)
"""When every exploration starts (epoch ms): three days before the slots."""

FIRST_SLOT = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)

EXPIRIES = (LEASE_MS + 1_000, 11 * 60_000, LEASE_MS + 1_000)
"""How far the clock jumps (ms): past every lease, and the second time past DynamoDB's memory of tokens, too."""

MOST_REDELIVERIES = 3
"""I9: once faults stop, as many deliveries bring every request to its end."""

MakeProgram = Callable[[Process, Context, Sequence[dict[str, Any]], bool], Mapping[str, Any]]
"""Runs one invocation of the code under test with these records, side by side if the last argument says so."""


@dataclass(frozen=True)
class Subject:
    """The code under test, and the laws that it is held to."""

    name: str
    run: MakeProgram
    laws: Laws

    def program(self, messages: Sequence[SqsMessage], side_by_side: bool) -> Program:
        """One invocation with these messages as its batch."""
        records = json.dumps([message.record(position) for position, message in enumerate(messages)])
        return lambda process, context: self.run(process, context, json.loads(records), side_by_side)


OURS = Subject("Oneslot", our_program, OurLaws())
OURS_IN_GROUPS = Subject("Oneslot, group commit", group_program, OurLaws())


@dataclass(frozen=True)
class Scenario:
    """One exploration.

    Attributes:
        deliveries: for each invocation the positions of its messages in `messages`. Equal ones are interchangeable, and
            must stand side by side: the explorer renames them in the order of their first one.
        before: rows that are there before, by table, in plain values.
        faults, expiries: how many of each may happen in one schedule; `EXPIRIES` has so many of the latter.
        choices: what may become of a call, besides being performed.
        side_by_side: whether the records of a batch run on threads of their own.
        clocks: for each delivery how far its clock is ahead of the services' (ms); empty if all are right. Such deliveries
            are interchangeable only if their clocks are equal, too.
        exempt: laws that are not asked: they do not hold at the start, or are of one clock.
        ends_with: the statuses of all appointments and slots when everything is over; None where the order decides.
        redeliveries: as many fault-free ones must be enough afterwards (I9).
        ends_by_itself: E1 is checked: every delivery acknowledges, without another one.

    Raises `ValueError`, naming the attribute, if deliveries, clocks or the budget are not like that: it would be explored,
    wrongly.
    """

    name: str
    sentence: str
    messages: tuple[SqsMessage, ...]
    deliveries: tuple[tuple[int, ...], ...]
    before: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    faults: int = 1
    expiries: int = 1
    choices: Callable[[Request], tuple[Choice, ...]] = all_faults
    side_by_side: bool = False
    ends_by_itself: bool = False
    clocks: tuple[int, ...] = ()
    exempt: tuple[str, ...] = ()
    ends_with: tuple[str, ...] | None = None
    redeliveries: int = MOST_REDELIVERIES
    start: int = NOON

    def __post_init__(self) -> None:
        positions = range(len(self.messages))
        if not self.deliveries or not all(self.deliveries):
            raise ValueError("deliveries: there must be one at least, and a message in each")
        if not all(position in positions for delivery in self.deliveries for position in delivery):
            raise ValueError(f"deliveries: a position is none of the {len(self.messages)} in messages; count from 0")
        if self.clocks and len(self.clocks) != len(self.deliveries):
            raise ValueError(f"clocks: there must be none, or one for each of the {len(self.deliveries)} deliveries")
        if len(list(groupby(self.kinds))) > len(set(self.kinds)):
            raise ValueError("deliveries: equal ones must stand side by side, as in ((0,), (0,), (1,))")
        if self.faults < 0:
            raise ValueError("faults: there cannot be fewer than 0")
        if not 0 <= self.expiries <= len(EXPIRIES):
            raise ValueError(f"expiries: there must be 0 to {len(EXPIRIES)}")

    @property
    def size(self) -> str:
        """The budget, as people name it."""
        return f"K={len(self.deliveries)} F={self.faults} T={self.expiries}"

    @property
    def kinds(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """For each delivery its messages, and how far its clock is ahead (ms): equal ones are interchangeable."""
        return tuple(zip(self.deliveries, self.clocks or (0,) * len(self.deliveries), strict=True))

    def asked(self, breaches: Iterable[str]) -> tuple[str, ...]:
        """The breaches of those laws that are asked here."""
        return tuple(breach for breach in breaches if law_name(breach) not in self.exempt)

    @property
    def world(self) -> World:
        """What the services hold before."""
        contents = Contents({name: {} for name in TABLES})
        claims = {}
        for table, rows in self.before.items():
            for row in rows:
                item = to_attributes(row)
                contents.tables[table][TABLES[table].key_text(item)] = item
                if "consumption_count" in row:
                    claims[row["message_id"]] = row["consumption_count"]
        return World.of(contents, {}, claims)

    def clock(self, expiries: int) -> int:
        """Epoch ms after this many expiries."""
        return self.start + sum(EXPIRIES[:expiries])


def free_slots(number: int) -> list[dict[str, Any]]:
    """This many free slots at the practice, one every ten minutes."""
    slots = []
    for position in range(number):
        start = FIRST_SLOT + timedelta(minutes=10 * position)
        slot = {
            "practice": PRACTICE,
            "slot_id": f"{start:%Y%m%dT%H%MZ}-01",
            "start": utc_text(start),
            "end": utc_text(start + timedelta(minutes=10)),
            "status": "free",
            "delivery_channel": CHANNEL,
            "service_type": SERVICE,
        }
        slots.append({**slot, "free_key": free_key(slot)})
    return slots
