"""States as tuples of small numbers, the texts behind them, and one canonical state for all that differ by names only."""

import json
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

from oneslot.explorer.execution.behaviour import Behaviour, Interner
from oneslot.explorer.renaming import Permutation, mask_others, rename, rename_lines, view_of
from oneslot.explorer.world import World

NOT_STARTED, GONE, ENDED = -1, -2, -3
"""A delivery's code, where it is not the number of its history.

An invocation that has acknowledged, and whose messages are yet to be deleted, is ENDED less their bits. What it saw before
is forgotten, because only the messages can still make a difference.
"""


class ExploredState(NamedTuple):
    """A state. `codes` holds for each delivery NOT_STARTED, GONE (crashed, or over), ENDED or the number of its history.

    `warm` is the number of the environment that the next invocation may reuse, if it would behave differently there.
    """

    world: int
    expiries: int
    faults: int
    acknowledged: int
    network: tuple[int, ...]
    codes: tuple[int, ...]
    warm: int = -1


class Texts:
    """The requests, observations and worlds of one exploration as small numbers, and their renamed forms."""

    def __init__(self) -> None:
        self.requests, self.observations, self._world_texts = Interner(), Interner(), Interner()
        self.worlds: list[World] = []
        self._renamed: dict[tuple[str, int, Permutation], int] = {}

    def world_number(self, text: str) -> int:
        """Return the number of the world with this text."""
        number = self._world_texts(text)
        if number == len(self.worlds):
            self.worlds.append(World(text))
        return number

    def renamed(self, kind: str, number: int, permutation: Permutation) -> int:
        """Return the number of a "request", "observation" or "world" under other names."""
        if not permutation:
            return number
        key = (kind, number, permutation)
        known = self._renamed.get(key)
        if known is None:
            if kind == "world":
                known = self.world_number(rename_lines(self.worlds[number].text, permutation))
            else:
                texts = self.requests if kind == "request" else self.observations
                known = texts(rename(texts.texts[number], permutation))
            self._renamed[key] = known
        return known


class Symmetry:
    """The exchange of identical deliveries. `classes` gives for each delivery the first one of its kind."""

    def __init__(self, texts: Texts, behaviours: Sequence[Behaviour], classes: Sequence[int]) -> None:
        self._texts, self._behaviours, self._classes = texts, behaviours, classes
        self._renamed_node: dict[tuple[int, int, Permutation], int] = {}
        self._masked: list[dict[int, int]] = [{} for _ in classes]
        self._masks = Interner()
        self._orders: dict[tuple[int, ...], tuple[Permutation, ...]] = {}

    def canonical(self, state: ExploredState) -> ExploredState:
        """Return one state for all that differ only by the names of identical deliveries."""
        orders = self._orders.get(state.codes)
        if orders is None:
            orders = self._orders[state.codes] = tuple(self._orders_of(state.codes))
        if len(orders) == 1:
            return self._permuted(state, orders[0]) if orders[0] else state
        return min(self._permuted(state, order) for order in orders)

    def _orders_of(self, codes: tuple[int, ...]) -> Iterator[Permutation]:
        """Yield the exchanges to try: one if the deliveries' observations differ; () changes nothing."""
        count = len(codes)
        keys = [(self._classes[delivery], self._mask(delivery, codes[delivery])) for delivery in range(count)]
        order = sorted(range(count), key=keys.__getitem__)
        ties: list[list[int]] = []
        for delivery in order:
            if ties and keys[ties[-1][0]] == keys[delivery] and codes[delivery] != NOT_STARTED:
                ties[-1].append(delivery)
            else:
                ties.append([delivery])
        for choice in product(*(permutations(tie) for tie in ties)):
            # From the order of the deliveries to the place of each of them.
            sorted_by = [one for tie in choice for one in tie]
            places = tuple(sorted(range(count), key=sorted_by.__getitem__))
            yield () if places == tuple(range(count)) else places

    def _permuted(self, state: ExploredState, permutation: Permutation) -> ExploredState:
        if not permutation:
            return state
        world, expiries, faults, acknowledged, network, codes, warm = state
        exchanged = list(codes)
        for delivery, code in enumerate(codes):
            exchanged[permutation[delivery]] = code if code < 0 else self._permuted_node(delivery, code, permutation)
        if network:
            network = tuple(sorted([self._texts.renamed("request", request, permutation) for request in network]))
        world = self._texts.renamed("world", world, permutation)
        return ExploredState(world, expiries, faults, acknowledged, network, tuple(exchanged), warm)

    def _permuted_node(self, delivery: int, node: int, permutation: Permutation) -> int:
        view = view_of(permutation, delivery)
        if not view:
            return node
        key = (self._classes[delivery], node, view)
        known = self._renamed_node.get(key)
        if known is None:
            behaviour = self._behaviours[delivery]
            (environment, _, started), *steps = behaviour.steps(node)
            known = behaviour.start(started, environment)
            for strand, observation, clock in steps:
                known = behaviour.advance(known, strand, self._texts.renamed("observation", observation, view), clock)
            self._renamed_node[key] = known
        return known

    def _mask(self, delivery: int, node: int) -> int:
        if node < 0:
            return node
        memory = self._masked[self._classes[delivery]]
        known = memory.get(node)
        if known is None:
            history = self._behaviours[delivery].nodes[node]
            seen = "" if history.observation < 0 else mask_others(self._texts.observations.texts[history.observation])
            parent = self._mask(delivery, history.parent)
            known = memory[node] = self._masks(json.dumps([parent, history.strand, history.clock, seen]))
        return known
