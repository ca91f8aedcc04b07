"""Single deliveries of made events, without a fault: how an event grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from oneslot.explorer.handlers.asked import Asked, decoding
from oneslot.explorer.handlers.exploration import Exploration, exploration_of, refuse_import
from oneslot.explorer.handlers.given import Given

MOST_ERRORS = 12
"""The exceptions of a delivery that are read, from the last."""
CLIENT_ERROR = 400


@dataclass(frozen=True)
class Tried:
    """What one delivery of a made event did.

    Attributes:
        error: how it failed; empty if it did not.
        status: the HTTP status of its answer; 200 if it has none.
        writes: the number of places that wrote.
        has_more: whether the functions that it reaches name writes, and none of these ran.
        ran: the statements that ran.
        routes: the method and the path of each route in the handler's code.
    """

    error: str
    status: int
    writes: int
    has_more: bool
    ran: frozenset[tuple[str, int, int]]
    asked: Asked
    routes: tuple[tuple[str, str], ...] = ()

    @property
    def serves(self) -> bool:
        """Whether the handler does its work: it writes, or it only reads."""
        return not self.error and self.status < CLIENT_ERROR and not self.has_more


@contextmanager
def trying(given: Given) -> Iterator[Callable[[Given, Asked], Tried]]:
    """Let made events be tried: yield what delivers one, with the same handler and variables as `given`."""
    exploration: Exploration | None = None
    with ExitStack() as stack:

        def deliver(made: Given, asked: Asked) -> Tried:
            nonlocal exploration
            one = exploration_of(made)
            if exploration is None:
                exploration = one
                stack.enter_context(one.surrounded())
                stack.enter_context(decoding())
            return _tried(exploration, one, asked)

        yield deliver


def _tried(exploration: Exploration, one: Exploration, asked: Asked) -> Tried:
    """Deliver once, and if that does not serve once more, watched: what libraries catch counts, but watching is slow."""
    for is_watched in (False, True):
        outcome = exploration.deliver_made(one.scenario, asked, is_watched=is_watched).outcome
        error = outcome.error or (f"it reports the message as failed, after {outcome.raised}" if outcome.failed else "")
        reached = exploration.code.reached
        ran, routes = frozenset(reached.ran), (*reached.routes,)
        tried = Tried(error, _status(outcome.answer), reached.wrote, bool(reached.unwritten), ran, asked, routes)
        if tried.serves:
            break
    refuse_import(exploration.code, error)
    del asked.errors[:-MOST_ERRORS]
    return tried


def _status(answer: str) -> int:
    with suppress(ValueError, AttributeError, TypeError):
        return int(json.loads(answer).get("statusCode", 200))
    return 200
