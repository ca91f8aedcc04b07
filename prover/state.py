"""The transition system: states as tuples of small numbers, every text behind them interned, every step remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from typing import NamedTuple

from prover.faults import ANSWERED, DEATH, LATER, NOW, PERFORMED, SILENCE, Choice
from prover.process import Behaviour, Interner, Outcome
from prover.renaming import Permutation, mask_others, rename, rename_lines, swap, view_of
from prover.scenario import Scenario, Subject
from prover.world import Request, Services, World, port_services

NOT_STARTED, GONE = -1, -2


class State(NamedTuple):
    """A state. `codes` holds for each delivery NOT_STARTED, GONE (crashed, or over) or the number of its history."""

    world: int
    expiries: int
    faults: int
    acknowledged: int
    network: tuple[int, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
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
        self._apply: dict[tuple[int, int, int, int], tuple[int, int, tuple[str, ...]]] = {}
        self._renamed_text: dict[tuple[str, int, Permutation], int] = {}
        self._renamed_node: dict[tuple[int, int, Permutation], int] = {}
        self._masked: list[dict[int, int]] = []
        self._masks = Interner()
        self._choices: dict[int, tuple[Choice, ...]] = {}
        self._ends: dict[tuple[int, int, int], tuple[str, ...]] = {}
        self._in_state: dict[tuple[int, int, int], tuple[str, ...]] = {}
        self._behaviour = [self.behaviour(messages) for messages in scenario.deliveries]
        self._class = [scenario.deliveries.index(messages) for messages in scenario.deliveries]
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
        world, expiries, faults, _, network, codes = state
        active = False
        for delivery, code in enumerate(codes):
            if code == GONE:
                continue
            active = True
            if code == NOT_STARTED:
                node = self._behaviour[delivery].start(self._clocks[expiries])
                yield Step(delivery, 0, "invoked", -1, state._replace(codes=_put(codes, delivery, node)), node=node)
                continue
            node_known = self._behaviour[delivery].nodes[code]
            if node_known.outcome is not None:
                yield from self._deletion(state, delivery, node_known.outcome)
                continue
            for strand, seen_request in node_known.pending:
                request = self.renamed("request", seen_request, swap(delivery))
                yield self._step(state, delivery, strand, request, PERFORMED)
                if faults:
                    for choice in self.choices(request):
                        yield self._step(state, delivery, strand, request, choice)
        for position, request in enumerate(network):
            if position and network[position - 1] == request:
                continue
            after, _, breaches = self.apply(world, request, self._clocks[expiries])
            left = network[:position] + network[position + 1 :]
            yield Step(-1, 0, "lands late", request, state._replace(world=after, network=left), breaches)
        if expiries < self.scenario.expiries and (active or network):
            yield Step(-1, 0, "time passes", -1, state._replace(expiries=expiries + 1))

    def choices(self, request: int) -> tuple[Choice, ...]:
        """The faults of a call."""
        if request not in self._choices:
            self._choices[request] = self.scenario.choices(Request(self.requests.texts[request]))
        return self._choices[request]

    def apply(self, world: int, request: int, now: int, conflict: int = -1) -> tuple[int, int, tuple[str, ...]]:
        """The world after a request, what its caller sees, and the laws that the write broke."""
        key = (world, request, now, conflict)
        known = self._apply.get(key)
        if known is None:
            self.calls_made += 1
            before, call = self.worlds[world], Request(self.requests.texts[request])
            after, observation = self._services(before, call, now, None if conflict < 0 else conflict)
            breaches = tuple(self.subject.laws.at_write(before, after, call, now)) if after != before else ()
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
            exempt = self.scenario.exempt
            self._in_state[key] = tuple(law for law in broken if law_name(law) not in exempt)
        return self._in_state[key]

    def at_end(self, world: int, delivery: int, messages: tuple[int, ...], node: int) -> tuple[str, ...]:
        """The laws that the end of an invocation breaks; `delivery` is its number."""
        outcome = self.behaviour(messages).nodes[node].outcome
        if outcome is None:
            return ()
        named = Outcome(outcome.failed, outcome.error, tuple(rename(line, swap(delivery)) for line in outcome.lines))
        batch = [self.scenario.messages[position] for position in messages]
        return tuple(self.subject.laws.at_end(self.worlds[world], batch, named))

    def acknowledges(self, messages: tuple[int, ...], outcome: Outcome) -> int:
        """The messages that SQS deletes after this outcome, as bits."""
        if outcome.error is not None:
            return 0
        return sum(
            1 << position for position in set(messages) if self.scenario.messages[position].sqs_id not in outcome.failed
        )

    def canonical(self, state: State) -> State:
        """The same state for all that differ only by the names of identical deliveries."""
        codes = state.codes
        count = len(codes)
        keys = [(self._class[delivery], self._mask(delivery, codes[delivery])) for delivery in range(count)]
        order = sorted(range(count), key=keys.__getitem__)
        ties: list[list[int]] = []
        for delivery in order:
            if ties and keys[ties[-1][0]] == keys[delivery] and codes[delivery] != NOT_STARTED:
                ties[-1].append(delivery)
            else:
                ties.append([delivery])
        if all(len(tie) == 1 for tie in ties):
            return self._permuted(state, _places(order))
        orders = product(*(permutations(tie) for tie in ties))
        return min(self._permuted(state, _places([one for tie in choice for one in tie])) for choice in orders)

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

    def _step(self, state: State, delivery: int, strand: int, request: int, choice: Choice) -> Step:
        world, expiries, faults, acknowledged, network, codes = state
        now = self._clocks[expiries]
        breaches: tuple[str, ...] = ()
        after, observation, history = world, -1, -1
        if choice.performed == NOW or choice.conflict is not None:
            conflict = -1 if choice.conflict is None else choice.conflict
            after, observation, breaches = self.apply(world, request, now, conflict)
        elif choice.performed == LATER:
            network = tuple(sorted((*network, request)))
        if choice.observation is not None:
            observation = self.observations(choice.observation)
        if choice.seen == DEATH:
            codes = _put(codes, delivery, GONE)
        elif choice.seen == ANSWERED:
            seen = self.renamed("observation", observation, swap(delivery))
            behaviour = self._behaviour[delivery]
            node = history = behaviour.advance(codes[delivery], strand, seen, now)
            outcome = behaviour.nodes[node].outcome
            if outcome is not None:
                messages = self.scenario.deliveries[delivery]
                key = (after, delivery, node)
                if key not in self._ends:
                    self._ends[key] = self.at_end(after, delivery, messages, node)
                breaches += self._ends[key]
                if not self.acknowledges(messages, outcome):
                    node = GONE
            codes = _put(codes, delivery, node)
        elif choice.seen != SILENCE:
            raise ValueError(choice.seen)
        state = State(after, expiries, faults - choice.is_fault, acknowledged, network, codes)
        return Step(delivery, strand, choice.name, request, state, breaches, choice.is_fault, history)

    def _deletion(self, state: State, delivery: int, outcome: Outcome) -> Iterator[Step]:
        codes = _put(state.codes, delivery, GONE)
        bits = state.acknowledged | self.acknowledges(self.scenario.deliveries[delivery], outcome)
        yield Step(delivery, 0, "message deleted", -1, state._replace(acknowledged=bits, codes=codes))
        if state.faults and not self.scenario.ends_by_itself:
            lost = state._replace(faults=state.faults - 1, codes=codes)
            yield Step(delivery, 0, "crash before the message is deleted", -1, lost, fault=True)

    def _permuted(self, state: State, permutation: Permutation) -> State:
        if permutation == tuple(range(len(permutation))):
            return state
        codes = list(state.codes)
        for delivery, code in enumerate(state.codes):
            codes[permutation[delivery]] = code if code < 0 else self._permuted_node(delivery, code, permutation)
        network = tuple(sorted(self.renamed("request", request, permutation) for request in state.network))
        return state._replace(
            world=self.renamed("world", state.world, permutation), network=network, codes=tuple(codes)
        )

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


def law_name(breach: str) -> str:
    """The law that a sentence of `Laws` speaks of."""
    return breach.split(" ", 1)[0].rstrip(":")


def _put(codes: tuple[int, ...], position: int, code: int) -> tuple[int, ...]:
    return (*codes[:position], code, *codes[position + 1 :])


def _places(order: list[int]) -> Permutation:
    places = [0] * len(order)
    for place, delivery in enumerate(order):
        places[delivery] = place
    return tuple(places)
