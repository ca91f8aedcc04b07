"""What to do when an outside effect may have happened: an earlier attempt claimed the message, and recorded no result.

| policy       | the next attempt                           | the effect happens                               |
|--------------|--------------------------------------------|--------------------------------------------------|
| `again`      | repeats the effect                         | at least once                                    |
| `set_aside`  | quarantines the message, `outcome_unknown` | at most once                                     |
| `ask(probe)` | asks; quarantines what the probe cannot say | once, if the probe is truthful (see `ask`)      |

The ledger cannot tell an attempt that died before the effect from one that died after it. An exception is no better: a call
that timed out may have been performed. So each claim without a result counts. The promises last as long as the ledger's row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oneslot.runtime.attempt import finish, take_claim
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.protocol import Busy, Claim, Conflict, Duplicate, M, Outcome, Store

OUTCOME_UNKNOWN = "outcome_unknown"
"""The reason of a message that was set aside because its outside effect may have happened."""


@dataclass(frozen=True, slots=True)
class Done:
    """The effect happened; `answer` is recorded as the result that every duplicate gets."""

    answer: Any


class Probed(Enum):
    """A probe's other answers. `NOT_DONE`: the effect has not happened and never will, unless it is repeated."""

    NOT_DONE = "not done"
    UNKNOWN = "unknown"


NOT_DONE, UNKNOWN = Probed.NOT_DONE, Probed.UNKNOWN

IfUnknown = Callable[[Any, str], Done | None]
"""A policy: the message and its key → `Done`, or None to perform the effect. Raises `Unprocessable` to set it aside."""


def again(message: Any, idempotency_key: str) -> None:
    """Repeat the effect."""


def set_aside(message: Any, idempotency_key: str) -> Done | None:  # noqa: ARG001 - a policy's arguments
    """Raise the `Unprocessable` that quarantines the message."""
    raise Unprocessable(
        OUTCOME_UNKNOWN,
        "an attempt ended without a result, so the outside effect may have happened; find out before you repeat it",
    )


def ask(probe: Callable[[Any, str], Done | Probed]) -> IfUnknown:
    """Return the policy that asks the service that takes the effect.

    `probe(message, idempotency_key)` returns `Done(answer)`, `NOT_DONE` or `UNKNOWN`. Let it raise if it cannot answer now:
    the next delivery asks again. It is truthful if what it calls not done never happens later. A request that is still on
    its way can happen later, so return `UNKNOWN` while the service may still take it.
    """

    def asking(message: Any, idempotency_key: str) -> Done | None:
        match probe(message, idempotency_key):
            case Done() as done:
                return done
            case Probed.NOT_DONE:
                return None
            case Probed.UNKNOWN:
                return set_aside(message, idempotency_key)
            case other:
                raise TypeError(
                    f"the probe returned a {type(other).__name__}; return Done(answer), NOT_DONE or UNKNOWN"
                )

    return asking


def performing(if_unknown: IfUnknown = again) -> Callable[..., Outcome]:
    """Return a `Consumer`'s `attempt` for a `decide` that performs an outside effect before it returns `Effects(result)`.

    `decide` passes `message.message_id` to the service as the key. `Done.answer` must be a result. Group commit does not
    fit, because it decides before it claims.
    """

    def attempt(store: Store, message: M, decide: Callable[[M], Effects], deadline: int) -> Outcome:
        match take_claim(store, message.message_id, message.payload_hash, deadline, fenced=True):
            case Claim() as claim:

                def settle(message: M) -> Effects:
                    done = settled(if_unknown, message, claim)
                    return decide(message) if done is None else Effects(done.answer)

                return finish(store, claim, message, settle)
            case Duplicate() as known:
                return known.answer
            case Busy() | Conflict() as refusal:
                return refusal

    return attempt


def settled(if_unknown: IfUnknown, message: Any, claim: Claim) -> Done | None:
    """Return what the policy says; None if this claim is the first, or the effect is to be performed."""
    return if_unknown(message, claim.message_id) if claim.consumption_count > 1 else None
