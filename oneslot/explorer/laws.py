"""The interface of the laws that a subject must keep, and how they are checked."""

import traceback
from collections.abc import Collection, Iterator, Sequence

from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall, Services, SqsMessage, World, error_text

UNREADABLE = "unreadable"
"""The law that is reported when a law or a service raises."""


class Laws:
    """The laws of one subject; a subclass has those that it needs. Each breach is a sentence that starts with its law."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """Yield the breaches in one state. `waiting` are the requests that still have a message in the queue."""
        yield from ()

    def at_write(self, before: World, after: World, request: ApiCall, now: int, sender: str | None) -> Iterator[str]:
        """Yield the breaches by one write. `sender` names the delivery that sent it, None if it lands late."""
        yield from ()

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: HandlerEnd) -> Iterator[str]:
        """Yield the breaches by one invocation that ended with this outcome for this batch."""
        yield from ()

    def at_last(self, world: World, wanted: Sequence[str]) -> Iterator[str]:
        """Yield the breaches in the final world. `wanted` is the scenario's `ends_with`."""
        yield from ()

    def of_deliveries(self, world: World, delivered: Sequence[int]) -> Iterator[str]:
        """Yield the breaches in a world after deliveries without a fault: how often each message was delivered."""
        yield from ()

    def of_duplicate(
        self, before: World, message: SqsMessage, calls: Sequence[ApiCall], outcome: HandlerEnd
    ) -> Iterator[str]:
        """Yield the breaches by a duplicate that is delivered to the final world `before`."""
        yield from ()


def law_name(breach: str) -> str:
    """Return the name of the law that a breach starts with."""
    return breach.split(" ", 1)[0].rstrip(":")


def collect(breaches: Iterator[str]) -> Iterator[str]:
    """Yield the breaches; report a law that raises as one more, so that the exploration continues."""
    try:
        yield from breaches
    except Exception as error:
        yield unreadable(error)


def unreadable(error: Exception) -> str:
    """Return the breach that stands for an error in a law or a service."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{UNREADABLE}: {type(error).__name__} in {at.name}: {error}"


def perform(
    services: Services,
    laws: Laws,
    before: World,
    request: ApiCall,
    *,
    now: int,
    sender: str | None,
    conflict: int | None = None,
) -> tuple[World, str, tuple[str, ...]]:
    """Perform a request at `now` (epoch ms); return the world after it, the caller's observation, the breaches by a write."""
    try:
        after, observation = services(before, request, now, conflict)
    except NotExplorable:
        raise
    except Exception as error:  # DynamoDB would refuse it, too
        refusal = error_text({"Error": {"Code": "ValidationException", "Message": ""}})
        return before, refusal, (unreadable(error),)
    if after == before:
        return before, observation, ()
    return after, observation, tuple(collect(laws.at_write(before, after, request, now, sender)))
