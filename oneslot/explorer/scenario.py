"""One exploration: messages, deliveries, the rows before them, and a budget of faults; and the subject that runs it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.execution.process import LEASE_MS, InvocationContext, Program, RunningInvocation
from oneslot.explorer.faults import Choice
from oneslot.explorer.laws import Laws, law_name
from oneslot.explorer.state import ExploredState
from oneslot.explorer.world import NOON, ApiCall, Services, SqsMessage, World

EXPIRIES = (LEASE_MS + 1_000, 11 * 60_000, LEASE_MS + 1_000)
"""How far each expiry moves the clock (ms): past every lease; the second also past DynamoDB's memory of tokens."""

MOST_REDELIVERIES = 3
"""The deliveries without a fault that must bring every request to its end (I9)."""

SQS = "SQS"
"""Who delivers unless a scenario says otherwise."""

Run = Callable[[RunningInvocation, InvocationContext, Sequence[dict[str, Any]], bool], Mapping[str, Any]]
"""Runs one invocation with these records, on threads of their own if the last argument is true."""


@dataclass(frozen=True)
class ExploredSubject:
    """The code under test, and the laws that it must keep.

    `identified`: each delivery has a program of its own, because its ids have forms that cannot be renamed in a text.
    `counts_receives`: each delivery of a message says how many there were, as SQS does. Then no two are interchangeable.
    """

    name: str
    run: Run
    laws: Laws
    process: type[RunningInvocation] = RunningInvocation
    identified: bool = False
    counts_receives: bool = False

    def program(self, messages: Sequence[SqsMessage], side_by_side: bool, delivery: int = 0) -> Program:
        """Return one invocation with these messages as its batch. `delivery` is its number if it is identified."""
        records = json.dumps([message.record(position) for position, message in enumerate(messages)])
        return lambda process, context: self.run(process, context, json.loads(records), side_by_side)


@dataclass(frozen=True)
class Scenario:
    """One exploration.

    Attributes:
        deliveries: for each invocation the positions of its messages in `messages`. Equal deliveries are interchangeable
            and must stand side by side, because the explorer renames them in the order of their first one.
        tables: DynamoDB's tables by name.
        services: what performs its calls.
        choices: what may become of a call, besides being performed.
        before: the rows that exist at the start, by table, in plain values.
        faults, expiries: the most of each in one schedule; at most as many expiries as `EXPIRIES` has.
        side_by_side: whether the records of a batch run on threads of their own.
        clocks: how far each delivery's clock is ahead of the services' (ms); empty if none is. Deliveries with different
            clocks are not interchangeable.
        exempt: laws that are not checked: they do not hold at the start, or assume one clock.
        ends_with: the final statuses of all rows with effects; None where they depend on the order.
        redeliveries: the deliveries without a fault that must be enough afterwards (I9).
        once_more: whether every message is delivered once more, after it was acknowledged.
        plain: whether a counterexample shows whole rows and what came after, for a reader who does not know the explorer.
        deliverer: who delivers, in sentences.
        unfinished: how the breach starts that a message is never acknowledged.
        ends_by_itself: whether each delivery must acknowledge without another one (E1).
        visibility_ms: the queue's visibility timeout.
        expires: the call by which a service deletes what has expired, at any time; None where nothing can.

    Raises `ValueError`, naming the attribute, for deliveries, clocks or a budget that would be explored wrongly.
    """

    name: str
    sentence: str
    messages: tuple[SqsMessage, ...]
    deliveries: tuple[tuple[int, ...], ...]
    tables: Mapping[str, TableSchema]
    services: Services
    choices: Callable[[ApiCall], tuple[Choice, ...]]
    before: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    faults: int = 1
    expiries: int = 1
    side_by_side: bool = False
    ends_by_itself: bool = False
    clocks: tuple[int, ...] = ()
    exempt: tuple[str, ...] = ()
    ends_with: tuple[str, ...] | None = None
    redeliveries: int = MOST_REDELIVERIES
    start: int = NOON
    once_more: bool = True
    plain: bool = False
    unfinished: str = "I9: after"
    deliverer: str = SQS
    visibility_ms: int = LEASE_MS
    expires: ApiCall | None = None

    def __post_init__(self) -> None:
        positions = range(len(self.messages))
        if not self.deliveries or not all(self.deliveries):
            raise ValueError("deliveries: at least one is needed, each with a message")
        if not all(position in positions for delivery in self.deliveries for position in delivery):
            raise ValueError(f"deliveries: positions must be 0 to {len(self.messages) - 1}, as in messages")
        if self.clocks and len(self.clocks) != len(self.deliveries):
            raise ValueError(f"clocks: give none, or one for each of the {len(self.deliveries)} deliveries")
        if len(list(groupby(self.kinds))) > len(set(self.kinds)):
            raise ValueError("deliveries: equal ones must stand side by side, as in ((0,), (0,), (1,))")
        if self.faults < 0:
            raise ValueError("faults: must be 0 or more")
        if not 0 <= self.expiries <= len(EXPIRIES):
            raise ValueError(f"expiries: must be 0 to {len(EXPIRIES)}")

    def earlier(self, position: int) -> int:
        """Return the messages that must be acknowledged before the one at this position is delivered, as bits."""
        return 0

    def may_start(self, delivery: int, state: ExploredState) -> bool:
        """Return whether a delivery may start in a state."""
        return True

    def unacknowledged_by(self, delivery: int) -> int:
        """Return the messages that a delivery must acknowledge, even if an earlier one of them has, as bits."""
        return 0

    def taken(self, world: World) -> tuple[World, SqsMessage] | None:
        """Return the first message that the code under test sent to its own queue, and the world without it."""
        return None

    def may_end(self, codes: Sequence[int], travelling: bool) -> bool:
        """Return whether a schedule may end before all of its deliveries. `travelling`: a request may still land."""
        return False

    def times_after(self, expiries: int, running: bool) -> Sequence[int]:
        """Return the numbers of expiries that the next step of the clock may lead to."""
        return (expiries + 1,) if expiries < self.expiries else ()

    @property
    def size(self) -> str:
        """The budget in short: deliveries (K), faults (F), expiries (T)."""
        return f"K={len(self.deliveries)} F={self.faults} T={self.expiries}"

    @property
    def kinds(self) -> tuple[tuple[tuple[int, ...], int], ...]:
        """The messages and the clock's lead (ms) of each delivery; equal kinds are interchangeable."""
        return tuple(zip(self.deliveries, self.clocks or (0,) * len(self.deliveries), strict=True))

    def deleted(self, world: World) -> int:
        """Return the messages that the code under test has deleted by calls of its own, as bits."""
        return 0

    def redelivered_at(self, expiries: int) -> int:
        """Return when SQS delivers again what a schedule left, after this many expiries (epoch ms)."""
        return self.clock(expiries)

    def checked(self, breaches: Iterable[str]) -> tuple[str, ...]:
        """Return the breaches of laws that are not exempt."""
        return tuple(breach for breach in breaches if law_name(breach) not in self.exempt)

    @property
    def world(self) -> World:
        """The world at the start."""
        return World.before(self.before, self.tables)

    def clock(self, expiries: int) -> int:
        """Return the time after this many expiries (epoch ms)."""
        return self.start + sum(EXPIRIES[:expiries])
