"""Single deliveries of made events, without a fault: how an event grows."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

from oneslot.explorer.execution.process import RunningInvocation
from oneslot.explorer.handlers.asked import OBJECT, Asked, RecordedText
from oneslot.explorer.handlers.exploration import Exploration, exploration_of
from oneslot.explorer.handlers.faultless import CLIENT_ERROR, refuse_import
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.reached import Place
from oneslot.explorer.world import ApiCall

MOST_ERRORS = 12
"""The exceptions of a delivery that are read, from the last."""


@dataclass(frozen=True)
class Tried:
    """What one delivery of a made event did.

    Attributes:
        error: how it failed; empty if it did not.
        status: the HTTP status of its answer; 200 if it has none.
        writes: the number of places that wrote.
        has_more: whether the functions that it reaches name writes, and none of these ran.
        ran: the statements that ran, without those whose writes AWS refused; `most` counts these, too.
        wanted: the statements that name a write, in the functions that it reaches, and that some event should reach.
        calls, changed: its calls, and the rows and objects that they changed: the table or the bucket, and the key.
        routes: the method and the path of each route in the handler's code.
        names: the names that its code reads, of whatever.
    """

    error: str
    status: int
    writes: int
    has_more: bool
    ran: frozenset[Place]
    wanted: frozenset[Place]
    asked: Asked
    calls: tuple[ApiCall, ...]
    changed: frozenset[tuple[str, str]]
    most: int = 0
    routes: tuple[tuple[str, str], ...] = ()
    names: Sequence[str] = ()

    @property
    def accepts(self) -> bool:
        """Whether the handler neither fails nor answers that the event is wrong."""
        return not self.error and self.status < CLIENT_ERROR

    @property
    def serves(self) -> bool:
        """Whether the handler does its work: it writes, or it only reads."""
        return self.accepts and not self.has_more


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


@contextmanager
def decoding() -> Iterator[None]:
    """Let the running invocation's `Asked` see each text that Python's own JSON decodes."""
    decode = json.JSONDecoder.decode

    def decoded(self: json.JSONDecoder, text: str, *more: Any) -> Any:
        asked = getattr(getattr(RunningInvocation.running, "code", None), "asked", None)
        try:
            value = decode(self, text, *more)
        except ValueError:
            if asked is not None and isinstance(text, RecordedText):
                asked.note_want(text.at, OBJECT)
            raise
        return asked.decoded(text, value) if asked is not None else value

    with mock.patch.object(json.JSONDecoder, "decode", decoded):
        yield


def _tried(exploration: Exploration, one: Exploration, asked: Asked) -> Tried:
    """Deliver once, and if that does not serve once more, watched: what libraries catch counts, but watching is slow."""
    for is_watched in (False, True):
        delivered = exploration.deliver_made(one.scenario, asked, is_watched=is_watched)
        outcome = delivered.outcome
        error = outcome.error or (f"it reports the message as failed, after {outcome.raised}" if outcome.failed else "")
        reached = exploration.code.reached
        ran, wanted, has_more = frozenset(reached.done), frozenset(reached.wanted), bool(reached.unwritten)
        more = delivered.calls, exploration.changed, len(reached.ran), (*reached.routes,), sorted(reached.names)
        tried = Tried(error, _status(outcome.answer), reached.wrote, has_more, ran, wanted, asked, *more)
        if tried.serves:
            break
    if not asked.absent:  # what an import looks for is made next
        refuse_import(exploration.code, error)
    del asked.errors[:-MOST_ERRORS]
    return tried


def _status(answer: str) -> int:
    with suppress(ValueError, AttributeError, TypeError):
        return int(json.loads(answer).get("statusCode", 200))
    return 200
