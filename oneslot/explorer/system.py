"""The transition system of a scenario and a subject. Every step is remembered."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from oneslot.explorer.execution.behaviour import COLD, Behaviour
from oneslot.explorer.execution.process import TIMEOUT, HandlerEnd
from oneslot.explorer.faults import ANSWERED, DEATH, LATER, NOW, PERFORMED, Choice
from oneslot.explorer.laws import collect, perform
from oneslot.explorer.renaming import name_of, rename, swap
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.state import ENDED, GONE, NOT_STARTED, ExploredState, Symmetry, Texts
from oneslot.explorer.world import ApiCall, SqsMessage

EXPIRED = "DynamoDB deletes what has expired"
WARM = "invoked in the environment of the one before"


class Step(NamedTuple):
    """A transition to a state, and the laws that it broke.

    `delivery` is -1 if the step is of no delivery. `call` is the number of the request, `node` that of the delivery's
    history after the step, and `observation` that of what the delivery saw; each may be -1.
    """

    state: ExploredState
    delivery: int
    strand: int
    name: str
    call: int = -1
    breaches: tuple[str, ...] = ()
    fault: bool = False
    node: int = -1
    observation: int = -1


class _Own(NamedTuple):
    """A step of one delivery, whatever the others do, with the world and the delivery's code after it.

    `sent` and `environment`: what it leaves in the network, and what it leaves to the next one, if that matters.
    `step`: with the state at the start.
    """

    world: int
    code: int
    sent: tuple[int, ...]
    environment: int
    step: Step


class System:
    """The transition system of one scenario with one subject.

    `before` is a system of the same subject, messages and services: what it has learned of them is not run again.
    """

    def __init__(self, scenario: Scenario, subject: ExploredSubject, before: "System | None" = None) -> None:
        self.scenario = scenario
        self.subject = subject
        self.texts: Texts = before.texts if before else Texts()
        self.requests, self.observations, self.worlds = self.texts.requests, self.texts.observations, self.texts.worlds
        self.messages: list[SqsMessage] = before.messages if before else list(scenario.messages)
        """The scenario's messages, and then those that the code under test has sent to their queue."""
        self.calls_made = 0
        self.offered: set[int] = set()
        """The requests, as their senders named them, whose faults were all tried."""
        self._behaviours: dict[tuple[tuple[int, ...], int, int], Behaviour] = before._behaviours if before else {}
        self._environments: list[tuple[Behaviour, int]] = before._environments if before else []
        self._apply: dict[tuple[int, ...], tuple[int, int, tuple[str, ...]]] = before._apply if before else {}
        self._ran_before = before.runs if before else 0
        self._choices: dict[int, tuple[Choice, ...]] = {}
        self._in_state: dict[tuple[int, int, int], tuple[str, ...]] = {}
        self._moves: dict[tuple[int, int, int, int, bool], list[_Own]] = {}
        kinds = scenario.kinds
        self.behaviour_of = [
            # Equal deliveries start in their order, so a later one has the higher count.
            self.behaviour(messages, name, 1 + kinds[:name].count(kinds[name]))
            for name, messages in enumerate(scenario.deliveries)
        ]
        self._ahead = [ahead for _, ahead in scenario.kinds]
        self._clocks = [scenario.clock(expiries) for expiries in range(scenario.expiries + 1)]
        classes = list(range(len(kinds)))
        if not subject.identified and not subject.counts_receives:
            classes = [kinds.index(kind) for kind in kinds]
        self.canonical = Symmetry(self.texts, self.behaviour_of, classes).canonical
        self.renamed, self.world_number = self.texts.renamed, self.texts.world_number

    @cached_property
    def start(self) -> ExploredState:
        """The state at the start."""
        codes = (NOT_STARTED,) * len(self.scenario.deliveries)
        return ExploredState(self.world_number(self.scenario.world.text), 0, self.scenario.faults, 0, (), codes)

    @property
    def runs(self) -> int:
        """The runs of the code under test from its start, with those of the systems before."""
        return sum(behaviour.executions for behaviour in self._behaviours.values())

    @property
    def executions(self) -> int:
        """The runs of the code under test from its start."""
        return self.runs - self._ran_before

    def behaviour(self, messages: tuple[int, ...], delivery: int, receives: int = 1) -> Behaviour:
        """Return the known behaviour of invocations with these messages, and of this delivery if it is identified.

        `receives` is the count that SQS tells a subject which counts them.
        """
        key = (messages, delivery if self.subject.identified else 0, receives if self.subject.counts_receives else 1)
        if key not in self._behaviours:
            batch = [replace(self.messages[position], receives=key[2]) for position in messages]
            program = self.subject.program(batch, self.scenario.side_by_side, key[1])
            more = (self.subject.process, self._environments)
            self._behaviours[key] = Behaviour(program, self.requests, self.observations, *more)
        return self._behaviours[key]

    def receives(self, codes: Sequence[int]) -> tuple[int, ...]:
        """Return how often each message was delivered; 0 for a subject that does not count.

        `codes`: as in an `ExploredState`.
        """
        return self.delivered(codes) if self.subject.counts_receives else (0,) * len(self.scenario.messages)

    def delivered(self, codes: Sequence[int]) -> tuple[int, ...]:
        """Return how often each message was delivered. `codes`: as in an `ExploredState`."""
        started = [
            position
            for messages, code in zip(self.scenario.deliveries, codes, strict=True)
            if code != NOT_STARTED
            for position in messages
        ]
        return tuple(started.count(position) for position in range(len(self.scenario.messages)))

    def steps(self, state: ExploredState) -> Iterator[Step]:
        """Yield every step that can be taken in a state."""
        world, expiries, faults, acknowledged, network, codes, warm = state
        active = running = False
        for delivery, code in enumerate(codes):
            if code == GONE:
                continue
            active = True
            running |= code >= 0
            if code == NOT_STARTED:
                if self.scenario.may_start(delivery, state):
                    yield from self._starts(state, delivery)
                continue
            if code <= ENDED:
                yield from self._deletion(state, delivery, ENDED - code)
                continue
            key = (world, expiries, delivery, code, faults > 0)
            moves = self._moves.get(key)
            if moves is None:
                moves = self._moves[key] = list(self._moves_of(*key))
            before, after = codes[:delivery], codes[delivery + 1 :]
            for then, new, sent, environment, step in moves:
                left = tuple(sorted((*network, *sent))) if sent else network
                kept = warm if environment == COLD else environment
                then_codes, then_faults = (*before, new, *after), faults - step.fault
                reached = ExploredState(then, expiries, then_faults, acknowledged, left, then_codes, kept)
                yield step._replace(state=reached)
        for position, request in enumerate(network):
            if position and network[position - 1] == request:
                continue
            landed, _, breaches = self.apply(world, request, self._clocks[expiries])
            left = network[:position] + network[position + 1 :]
            yield Step(state._replace(world=landed, network=left), -1, 0, "lands late", request, breaches)
        yield from self._expires(state)
        if active or network:
            for later in self.scenario.times_after(expiries, running):
                yield Step(state._replace(expiries=later), -1, 0, "time passes")

    def _expires(self, state: ExploredState) -> Iterator[Step]:
        if self.scenario.expires is None or all(code == GONE for code in state.codes):
            return
        expire = self.requests(self.scenario.expires.text)
        rest, _, breaches = self.apply(state.world, expire, self._clocks[state.expiries])
        if rest != state.world:
            yield Step(state._replace(world=rest), -1, 0, EXPIRED, breaches=breaches)

    def _starts(self, state: ExploredState, delivery: int) -> Iterator[Step]:
        behaviour, now = self.behaviour_of[delivery], self._clocks[state.expiries] + self._ahead[delivery]
        for name, environment in (("invoked", COLD), (WARM, state.warm)):
            if name == WARM and environment <= COLD:
                continue
            node = behaviour.start(now, environment)
            code, breaches, left = self._ended(state.world, delivery, node)
            warm = left or (-1 if environment else state.warm)
            acknowledged = state.acknowledged & ~self.scenario.unacknowledged_by(delivery)
            codes = _put(state.codes, delivery, code)
            started = state._replace(codes=codes, warm=warm, acknowledged=acknowledged)
            yield Step(started, delivery, 0, name, breaches=breaches, node=node)

    def _ended(self, world: int, delivery: int, node: int) -> tuple[int, tuple[str, ...], int]:
        """Return the code after a history, the breaches if it has ended, and the environment that it leaves."""
        behaviour, messages = self.behaviour_of[delivery], self.scenario.deliveries[delivery]
        outcome = behaviour.nodes[node].outcome
        if outcome is None:
            return node, (), COLD
        acknowledged = self.acknowledges(messages, outcome)
        code = ENDED - acknowledged if acknowledged else GONE
        return (
            code,
            self.at_end(world, delivery, messages, outcome),
            self.left_by(behaviour, node) if outcome.dirty else COLD,
        )

    def left_by(self, behaviour: Behaviour, node: int) -> int:
        """Return the environment that an invocation leaves."""
        if (behaviour, node) not in self._environments:
            self._environments.append((behaviour, node))
        return self._environments.index((behaviour, node)) + 1

    def choices(self, request: int) -> tuple[Choice, ...]:
        """Return the faults of a call."""
        if request not in self._choices:
            self._choices[request] = self.scenario.choices(ApiCall(self.requests.texts[request]))
        return self._choices[request]

    def apply(
        self, world: int, request: int, now: int, sender: int = -1, conflict: int = -1
    ) -> tuple[int, int, tuple[str, ...]]:
        """Return the world after a request, its caller's observation, and the breaches by the write.

        `sender` is the delivery's number; -1 for a request that lands late, because its sender may be gone.
        """
        key = (world, request, now, sender, conflict)
        known = self._apply.get(key)
        if known is None:
            self.calls_made += 1
            after, observation, breaches = perform(
                self.scenario.services,
                self.subject.laws,
                self.worlds[world],
                ApiCall(self.requests.texts[request]),
                now=now,
                sender=None if sender < 0 else name_of(sender),
                conflict=None if conflict < 0 else conflict,
            )
            seen = self.world_number(after.text), self.observations(observation)
            known = self._apply[key] = (*seen, self.scenario.checked(breaches))
        return known

    def taken(self, world: int) -> tuple[int, int] | None:
        """Return the world without a message that the code sent to its own queue, and its position; None without one."""
        found = self.scenario.taken(self.worlds[world])
        if found is None:
            return None
        left, message = found
        if message not in self.messages:
            self.messages.append(message)
        return self.world_number(left.text), self.messages.index(message)

    def in_state(self, world: int, acknowledged: int, now: int) -> tuple[str, ...]:
        """Return the breaches in a state."""
        key = (world, acknowledged, now)
        if key not in self._in_state:
            messages = self.scenario.messages
            waiting = {message.message_id for bit, message in enumerate(messages) if not acknowledged >> bit & 1}
            requests = {message.message_id for message in messages}
            broken = self.subject.laws.in_state(self.worlds[world], waiting, requests, now)
            self._in_state[key] = self.scenario.checked(collect(broken))
        return self._in_state[key]

    def at_end(self, world: int, delivery: int, messages: tuple[int, ...], outcome: HandlerEnd) -> tuple[str, ...]:
        """Return the breaches by the end of an invocation; `delivery` is its number."""
        named = replace(outcome, lines=tuple(rename(line, swap(delivery)) for line in outcome.lines))
        batch = [self.messages[position] for position in messages]
        return tuple(collect(self.subject.laws.at_end(self.worlds[world], batch, named)))

    def acknowledges(self, messages: tuple[int, ...], outcome: HandlerEnd) -> int:
        """Return the messages that SQS deletes after this outcome, as bits."""
        if outcome.error is not None:
            return 0
        return sum(1 << position for position in set(messages) if self.messages[position].sqs_id not in outcome.failed)

    def _moves_of(self, world: int, expiries: int, delivery: int, code: int, faulty: bool) -> Iterator[_Own]:
        pending = self.behaviour_of[delivery].nodes[code].pending
        for strand, seen_request in pending:
            request = self.renamed("request", seen_request, swap(delivery))
            choices = self.choices(request)
            if faulty or not any(one.is_fault for one in choices):
                self.offered.add(seen_request)
            else:
                choices = tuple(
                    replace(one, is_fault=False)
                    for one in choices
                    if not one.is_fault or (one.again and any(True for _ in self.worlds[world].lines(one.again)))
                )
            at = (world, self._clocks[expiries], delivery, code)
            seen = None
            if (strand, seen_request) in self.next_calls(pending):
                yield (own := self._own(at, strand, request, PERFORMED))
                seen = own.step.observation
            for choice in choices:
                own = self._own(at, strand, request, choice)
                # A read as before the last write is left out where it answers the same.
                if choice.conflict is None or own.step.observation != seen:
                    yield own

    def next_calls(self, pending: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return the pending calls that may come next without a fault: the end of a timeout only if there is no other."""
        waits = json.dumps([TIMEOUT])[:-1]
        return [one for one in pending if not self.requests.texts[one[1]].startswith(waits)] or pending

    def _own(self, at: tuple[int, int, int, int], strand: int, request: int, choice: Choice) -> _Own:
        """`at`: the world, the time (epoch ms), the delivery's number and its code."""
        world, now, delivery, code = at
        breaches: tuple[str, ...] = ()
        after, observation, seen, history, environment = world, -1, -1, -1, COLD
        if choice.performed == NOW or choice.conflict is not None:
            conflict = -1 if choice.conflict is None else choice.conflict
            after, observation, breaches = self.apply(world, request, now, delivery, conflict)
        if choice.observation is not None:
            observation = self.observations(choice.observation)
        if choice.seen == DEATH:
            code = GONE
        elif choice.seen == ANSWERED:
            seen = self.renamed("observation", observation, swap(delivery))
            history = self.behaviour_of[delivery].advance(code, strand, seen, now + self._ahead[delivery])
            code, ended, environment = self._ended(after, delivery, history)
            breaches += ended
        sent = (request,) if choice.performed == LATER else ()
        step = Step(self.start, delivery, strand, choice.name, request, breaches, choice.is_fault, history, seen)
        return _Own(after, code, sent, environment, step)

    def _deletion(self, state: ExploredState, delivery: int, messages: int) -> Iterator[Step]:
        codes = _put(state.codes, delivery, GONE)
        deleted = state._replace(acknowledged=state.acknowledged | messages, codes=codes)
        yield Step(deleted, delivery, 0, "message deleted")
        if state.faults and not self.scenario.ends_by_itself:
            lost = state._replace(faults=state.faults - 1, codes=codes)
            yield Step(lost, delivery, 0, "crash before the message is deleted", fault=True)


def _put(codes: tuple[int, ...], position: int, code: int) -> tuple[int, ...]:
    return (*codes[:position], code, *codes[position + 1 :])
