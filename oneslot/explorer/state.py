"""The transition system: states as tuples of small numbers, every text behind them interned, every step remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import NamedTuple

from oneslot.explorer.faults import ANSWERED, DEATH, LATER, NOW, PERFORMED, SILENCE, Choice
from oneslot.explorer.process import Behaviour, Interner, Outcome
from oneslot.explorer.renaming import Permutation, mask_others, name_of, rename, rename_lines, swap, view_of
from oneslot.explorer.scenario import Scenario, Subject
from oneslot.explorer.world import Request, Services, World, port_services
from verification.scenarios.laws import asked, performed

NOT_STARTED, GONE, ENDED = -1, -2, -3
"""What a delivery's code is besides the number of its history: an invocation that has acknowledged, and whose messages are
yet to be deleted, is ENDED less their bits, whatever it saw before: nothing but those can make a difference any more."""


class State(NamedTuple):
    """A state. `codes` holds for each delivery NOT_STARTED, GONE (crashed, or over), ENDED or the number of its history."""

    world: int
    expiries: int
    faults: int
    acknowledged: int
    network: tuple[int, ...]
    codes: tuple[int, ...]


class Step(NamedTuple):
    """A transition: what happened to whom, and which laws it broke.

    `delivery` is -1 for what happens to none; `call` is the number of the request in question, `node` that of the
    delivery's history after the step; -1 for none.
    """

    delivery: int
    strand: int
    name: str
    call: int
    state: State
    breaches: tuple[str, ...] = ()
    fault: bool = False
    node: int = -1


class _Move(NamedTuple):
    """What a delivery can do in a world at a time, whatever the others are at; `code` and `world` are those after it.

    `sent` is a request that it leaves in the network; -1 for none. The others as in `Step`.
    """

    strand: int
    name: str
    call: int
    world: int
    code: int
    sent: int
    breaches: tuple[str, ...]
    fault: bool
    node: int


class System:
    """The transition system of one scenario with one subject."""

    def __init__(self, scenario: Scenario, subject: Subject, services: Services = port_services) -> None:
        self.scenario = scenario
        self.subject = subject
        self.requests, self.observations, self._worlds = Interner(), Interner(), Interner()
        self.worlds: list[World] = []
        self.calls_made = 0
        self._services = services
        self._behaviours: dict[tuple[int, ...], Behaviour] = {}
        self._apply: dict[tuple[int, int, int, int, int], tuple[int, int, tuple[str, ...]]] = {}
        self._renamed_text: dict[tuple[str, int, Permutation], int] = {}
        self._renamed_node: dict[tuple[int, int, Permutation], int] = {}
        self._masked: list[dict[int, int]] = []
        self._masks = Interner()
        self._choices: dict[int, tuple[Choice, ...]] = {}
        self._in_state: dict[tuple[int, int, int], tuple[str, ...]] = {}
        self._moves: dict[tuple[int, int, int, int, bool], list[_Move]] = {}
        self._orders: dict[tuple[int, ...], tuple[Permutation, ...]] = {}
        self._behaviour = [self.behaviour(messages) for messages in scenario.deliveries]
        self._class = [scenario.kinds.index(kind) for kind in scenario.kinds]
        self._ahead = [ahead for _, ahead in scenario.kinds]
        self._masked = [{} for _ in scenario.deliveries]
        self._clocks = [scenario.clock(expiries) for expiries in range(scenario.expiries + 1)]

    @property
    def start(self) -> State:
        """The state before anything."""
        codes = (NOT_STARTED,) * len(self.scenario.deliveries)
        return State(self.world_number(self.scenario.world.text), 0, self.scenario.faults, 0, (), codes)

    @property
    def executions(self) -> int:
        """How often the code under test was run from its start."""
        return sum(behaviour.executions for behaviour in self._behaviours.values())

    def behaviour(self, messages: tuple[int, ...]) -> Behaviour:
        """What is known of invocations with these messages."""
        if messages not in self._behaviours:
            program = self.subject.program(
                [self.scenario.messages[position] for position in messages], self.scenario.side_by_side
            )
            self._behaviours[messages] = Behaviour(program, self.requests, self.observations)
        return self._behaviours[messages]

    def world_number(self, text: str) -> int:
        """The number of a world, given as its text."""
        number = self._worlds(text)
        if number == len(self.worlds):
            self.worlds.append(World(text))
        return number

    def steps(self, state: State) -> Iterator[Step]:
        """Every step that can be taken, whoever takes it."""
        world, expiries, faults, acknowledged, network, codes = state
        active = False
        for delivery, code in enumerate(codes):
            if code == GONE:
                continue
            active = True
            if code == NOT_STARTED:
                node = self._behaviour[delivery].start(self._clocks[expiries] + self._ahead[delivery])
                yield Step(delivery, 0, "invoked", -1, state._replace(codes=_put(codes, delivery, node)), node=node)
                continue
            if code <= ENDED:
                yield from self._deletion(state, delivery, ENDED - code)
                continue
            key = (world, expiries, delivery, code, faults > 0)
            moves = self._moves.get(key)
            if moves is None:
                moves = self._moves[key] = list(self._moves_of(*key))
            before, after = codes[:delivery], codes[delivery + 1 :]
            for strand, name, call, then, new, sent, breaches, fault, node in moves:
                left = network if sent < 0 else tuple(sorted((*network, sent)))
                reached = State(then, expiries, faults - fault, acknowledged, left, (*before, new, *after))
                yield Step(delivery, strand, name, call, reached, breaches, fault, node)
        for position, request in enumerate(network):
            if position and network[position - 1] == request:
                continue
            landed, _, breaches = self.apply(world, request, self._clocks[expiries])
            left = network[:position] + network[position + 1 :]
            yield Step(-1, 0, "lands late", request, state._replace(world=landed, network=left), breaches)
        if expiries < self.scenario.expiries and (active or network):
            yield Step(-1, 0, "time passes", -1, state._replace(expiries=expiries + 1))

    def choices(self, request: int) -> tuple[Choice, ...]:
        """The faults of a call."""
        if request not in self._choices:
            self._choices[request] = self.scenario.choices(Request(self.requests.texts[request]))
        return self._choices[request]

    def apply(
        self, world: int, request: int, now: int, sender: int = -1, conflict: int = -1
    ) -> tuple[int, int, tuple[str, ...]]:
        """The world after a request, what its caller sees, and the laws that the write broke.

        `sender` is the delivery's number; -1 for a request that lands late, whose sender may be gone.
        """
        key = (world, request, now, sender, conflict)
        known = self._apply.get(key)
        if known is None:
            self.calls_made += 1
            after, observation, breaches = performed(
                self._services,
                self.subject.laws,
                self.worlds[world],
                Request(self.requests.texts[request]),
                now=now,
                sender=None if sender < 0 else name_of(sender),
                conflict=None if conflict < 0 else conflict,
            )
            breaches = self.scenario.asked(breaches)
            known = self._apply[key] = (self.world_number(after.text), self.observations(observation), breaches)
        return known

    def in_state(self, world: int, acknowledged: int, now: int) -> tuple[str, ...]:
        """The laws that a state breaks."""
        key = (world, acknowledged, now)
        if key not in self._in_state:
            messages = self.scenario.messages
            waiting = {message.message_id for bit, message in enumerate(messages) if not acknowledged >> bit & 1}
            requests = {message.message_id for message in messages}
            broken = self.subject.laws.in_state(self.worlds[world], waiting, requests, now)
            self._in_state[key] = self.scenario.asked(asked(broken))
        return self._in_state[key]

    def at_end(self, world: int, delivery: int, messages: tuple[int, ...], node: int) -> tuple[str, ...]:
        """The laws that the end of an invocation breaks; `delivery` is its number."""
        outcome = self.behaviour(messages).nodes[node].outcome
        if outcome is None:
            return ()
        named = replace(outcome, lines=tuple(rename(line, swap(delivery)) for line in outcome.lines))
        batch = [self.scenario.messages[position] for position in messages]
        return tuple(asked(self.subject.laws.at_end(self.worlds[world], batch, named)))

    def acknowledges(self, messages: tuple[int, ...], outcome: Outcome) -> int:
        """The messages that SQS deletes after this outcome, as bits."""
        if outcome.error is not None:
            return 0
        return sum(
            1 << position for position in set(messages) if self.scenario.messages[position].sqs_id not in outcome.failed
        )

    def canonical(self, state: State) -> State:
        """The same state for all that differ only by the names of identical deliveries."""
        orders = self._orders.get(state.codes)
        if orders is None:
            orders = self._orders[state.codes] = tuple(self._orders_of(state.codes))
        if len(orders) == 1:
            return self._permuted(state, orders[0]) if orders[0] else state
        return min(self._permuted(state, order) for order in orders)

    def _orders_of(self, codes: tuple[int, ...]) -> Iterator[Permutation]:
        """The exchanges to be tried: one, if what the deliveries saw tells them apart; () changes nothing."""
        count = len(codes)
        keys = [(self._class[delivery], self._mask(delivery, codes[delivery])) for delivery in range(count)]
        order = sorted(range(count), key=keys.__getitem__)
        ties: list[list[int]] = []
        for delivery in order:
            if ties and keys[ties[-1][0]] == keys[delivery] and codes[delivery] != NOT_STARTED:
                ties[-1].append(delivery)
            else:
                ties.append([delivery])
        for choice in product(*(permutations(tie) for tie in ties)):
            places = _places([one for tie in choice for one in tie])
            yield () if places == tuple(range(count)) else places

    def renamed(self, kind: str, number: int, permutation: Permutation) -> int:
        """A request, observation or world under other names."""
        if not permutation:
            return number
        key = (kind, number, permutation)
        known = self._renamed_text.get(key)
        if known is None:
            if kind == "world":
                known = self.world_number(rename_lines(self.worlds[number].text, permutation))
            else:
                texts = self.requests if kind == "request" else self.observations
                known = texts(rename(texts.texts[number], permutation))
            self._renamed_text[key] = known
        return known

    def _moves_of(self, world: int, expiries: int, delivery: int, code: int, faulty: bool) -> Iterator[_Move]:
        for strand, seen_request in self._behaviour[delivery].nodes[code].pending:
            request = self.renamed("request", seen_request, swap(delivery))
            for choice in (PERFORMED, *(self.choices(request) if faulty else ())):
                yield self._move((world, self._clocks[expiries], delivery, code), strand, request, choice)

    def _move(self, at: tuple[int, int, int, int], strand: int, request: int, choice: Choice) -> _Move:
        """`at`: the world, the time (epoch ms), the delivery's number and its code."""
        world, now, delivery, code = at
        breaches: tuple[str, ...] = ()
        after, observation, history = world, -1, -1
        if choice.performed == NOW or choice.conflict is not None:
            conflict = -1 if choice.conflict is None else choice.conflict
            after, observation, breaches = self.apply(world, request, now, delivery, conflict)
        if choice.observation is not None:
            observation = self.observations(choice.observation)
        if choice.seen == DEATH:
            code = GONE
        elif choice.seen == ANSWERED:
            seen = self.renamed("observation", observation, swap(delivery))
            behaviour = self._behaviour[delivery]
            code = history = behaviour.advance(code, strand, seen, now + self._ahead[delivery])
            outcome = behaviour.nodes[code].outcome
            if outcome is not None:
                messages = self.scenario.deliveries[delivery]
                breaches += self.at_end(after, delivery, messages, code)
                acknowledged = self.acknowledges(messages, outcome)
                code = ENDED - acknowledged if acknowledged else GONE
        elif choice.seen != SILENCE:
            raise ValueError(choice.seen)
        sent = request if choice.performed == LATER else -1
        return _Move(strand, choice.name, request, after, code, sent, breaches, choice.is_fault, history)

    def _deletion(self, state: State, delivery: int, messages: int) -> Iterator[Step]:
        codes = _put(state.codes, delivery, GONE)
        deleted = state._replace(acknowledged=state.acknowledged | messages, codes=codes)
        yield Step(delivery, 0, "message deleted", -1, deleted)
        if state.faults and not self.scenario.ends_by_itself:
            lost = state._replace(faults=state.faults - 1, codes=codes)
            yield Step(delivery, 0, "crash before the message is deleted", -1, lost, fault=True)

    def _permuted(self, state: State, permutation: Permutation) -> State:
        if not permutation:
            return state
        world, expiries, faults, acknowledged, network, codes = state
        exchanged = list(codes)
        for delivery, code in enumerate(codes):
            exchanged[permutation[delivery]] = code if code < 0 else self._permuted_node(delivery, code, permutation)
        if network:
            network = tuple(sorted([self.renamed("request", request, permutation) for request in network]))
        world = self.renamed("world", world, permutation)
        return State(world, expiries, faults, acknowledged, network, tuple(exchanged))

    def _permuted_node(self, delivery: int, node: int, permutation: Permutation) -> int:
        view = view_of(permutation, delivery)
        if not view:
            return node
        key = (self._class[delivery], node, view)
        known = self._renamed_node.get(key)
        if known is None:
            behaviour = self._behaviour[delivery]
            (_, _, started), *steps = behaviour.steps(node)
            known = behaviour.start(started)
            for strand, observation, clock in steps:
                known = behaviour.advance(known, strand, self.renamed("observation", observation, view), clock)
            self._renamed_node[key] = known
        return known

    def _mask(self, delivery: int, node: int) -> int:
        if node < 0:
            return node
        memory = self._masked[self._class[delivery]]
        known = memory.get(node)
        if known is None:
            history = self._behaviour[delivery].nodes[node]
            seen = "" if history.observation < 0 else mask_others(self.observations.texts[history.observation])
            parent = self._mask(delivery, history.parent)
            known = memory[node] = self._masks(json.dumps([parent, history.strand, history.clock, seen]))
        return known


def _put(codes: tuple[int, ...], position: int, code: int) -> tuple[int, ...]:
    return (*codes[:position], code, *codes[position + 1 :])


def _places(order: list[int]) -> Permutation:
    places = [0] * len(order)
    for place, delivery in enumerate(order):
        places[delivery] = place
    return tuple(places)
