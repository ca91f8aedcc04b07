"""Idempotent handlers for work that `Effects` cannot describe: a mail, a payment, a file.

One handler at a time works on a message. Once the message is marked as processed, no handler works on it as long as the
ledger keeps its row (`retention_seconds`): every later delivery gets the stored answer. A crash between the effect and the
mark leaves one gap, and the work is then done again. Effects outside the ledger's transaction therefore happen **at least
once**, unless `if_unknown` says otherwise:

| policy       | the next attempt                           | the effect happens                               |
|--------------|--------------------------------------------|--------------------------------------------------|
| `again`      | repeats the effect                         | at least once                                    |
| `set_aside`  | quarantines the message, `outcome_unknown` | at most once                                     |
| `ask(probe)` | asks; quarantines what the probe cannot say | once, if the probe is truthful (see `ask`)      |

The ledger cannot tell an attempt that died before the effect from one that died after it. An exception says no more: a call
that timed out may have been performed. So each claim without a result counts.

The handler receives a key that is the same in every attempt at one message. Pass it on to the service that takes the effect
(an `Idempotency-Key` header, a payment reference, a file name, a primary key) to make a repetition harmless.

For a write to the ledger's own store use `@exactly_once` instead: it has no gap.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from oneslot.runtime.attempt import finish, on_release, release_after, take_claim
from oneslot.runtime.effects import Effects, InvalidEffects, Unprocessable, conflict
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Fenced, M, Outcome, Store

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


T = TypeVar("T")
R = TypeVar("R")

RETURNED = "returned"
"""The name under which the ledger's result holds a handler's return value."""


class Locked(Exception):
    """Another handler holds this message. Deliver it again in `milliseconds`.

    Raise it from a worker's handler: the worker hides the message for a second, then for twice as long each time, and from
    half of its receives on for all of `milliseconds`.
    """

    def __init__(self, milliseconds: int) -> None:
        super().__init__(f"another handler holds this message for at most {milliseconds} ms; deliver it again then")
        self.milliseconds = self.retry_after_ms = milliseconds


class LockLost(Exception):
    """The handler outran its lock, and another handler holds the message now. The work may be done twice.

    Deliver the message again, and raise `lock_timeout`.
    """


def acquire(
    ledger: Store, message_id: str, lock_timeout: float, content: str = ""
) -> Claim | Duplicate | Busy | Conflict:
    """Lock the message for `lock_timeout` seconds. `oneslot worker` renews the lock while the handler runs.

    Args:
        content: a digest of the message's content. The same id with another digest is a `Conflict`; the default checks
            nothing.

    Returns:
        `Claim`: locked; work, then `mark_processed` or `release`. `claim.message_id` is the stable idempotency key.
        `Duplicate`: processed before, with this result. `Busy`: locked by another handler for this many milliseconds.

    Raises:
        ValueError: for a `lock_timeout` under one millisecond.
    """
    milliseconds = int(lock_timeout * 1000)
    if milliseconds < 1:
        raise ValueError(
            f"lock_timeout of {lock_timeout} s is too short; set it to the longest time that the work may take"
        )
    return take_claim(ledger, message_id, content, ledger.surroundings.now_ms() + milliseconds, fenced=False)


def mark_processed(ledger: Store, claim: Claim, returned: Any = None) -> Committed | Duplicate | Fenced:
    """Record the result for the ledger's `retention_seconds`. Call it *after* the effect: else a crash loses work.

    `Duplicate` and `Fenced` mean that the lock had ended and another handler took the message: the effect may exist twice.

    Raises:
        InvalidEffects: if `returned` is not valid JSON or exceeds 390,000 bytes.
    """
    return cast("Committed | Duplicate | Fenced", ledger.commit(claim, Effects({RETURNED: returned})))


def release(ledger: Store, claim: Claim) -> bool:
    """Unlock the message after a failure, so that the next delivery can try at once. False if the lock was lost."""
    return ledger.release(claim)


def make_handler_idempotent(
    handler: Callable[[T, str], R],
    id_generator: Callable[[T], str],
    ledger: Store,
    lock_timeout: float,
    content: Callable[[T], str] | None = None,
    *,
    may_overlap: bool = False,
    if_unknown: IfUnknown = again,
) -> Callable[[T], R]:
    """Wrap `handler(message, idempotency_key)`; call the result with the message alone.

    Two calls never overlap within `lock_timeout`. After one has returned, none runs until the ledger's row expires. Every
    call until then gets the same answer: the first return value, after a round trip through JSON.

    Args:
        handler: a function or a coroutine function; the wrapped one is of the same kind. Its second argument is the same
            in every attempt at one message: pass it on.
        id_generator: the message → its id. Raise `Unprocessable` if it has none; never invent one.
        lock_timeout: seconds, more than the longest run: a lock that ends early lets a second handler start. `oneslot
            worker` renews the lock, so that it may be short.
        content: the message → a digest of its content; the same id with another digest is refused. None: no check.
        may_overlap: the service that takes the effect ignores a repeated key. A worker that stops may then unlock the
            message while the handler runs, so that the next worker need not wait for the lock to end.
        if_unknown: what the next attempt does after one that may have had the effect: `again`, `set_aside` or
            `ask(probe)`. It runs under the lock, for a coroutine function in a thread.

    Raises:
        ValueError: for `may_overlap` with another policy than `again`.

    The wrapped handler unlocks the message and raises whatever the handler raises, `SystemExit` as well. It also raises:
        Locked: another handler holds the message. Deliver it again later.
        LockLost: the lock ended while the handler ran, and another handler took over.
        Unprocessable: `conflict`, the id was used before with another content; `outcome_unknown`, it is set aside.
        InvalidEffects: once, for a return value that is not valid JSON or too large. The effect has happened, so the message is
            marked as processed with the answer None, and later deliveries get that.
    """
    if may_overlap and if_unknown is not again:
        raise ValueError("may_overlap says that a repeated effect does no harm; leave it or if_unknown out")

    def begin(message: T) -> Claim | Duplicate:
        outcome = acquire(ledger, id_generator(message), lock_timeout, content(message) if content else "")
        match outcome:
            case Busy(milliseconds):
                raise Locked(milliseconds)
            case Conflict():
                raise conflict()
            case Claim() if may_overlap:
                on_release(functools.partial(release, ledger, outcome))
        return outcome

    end = functools.partial(_marked, ledger, lock_timeout)

    def unlock(claim: Claim, process: int, error: BaseException) -> None:
        if os.getpid() == process:  # else a child that the handler forked: its parent may still work
            release_after(error, ledger, claim)

    async def begin_unless_cancelled(message: T) -> Claim | Duplicate:
        beginning = asyncio.ensure_future(asyncio.to_thread(begin, message))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError as cancelled:
            # The thread is not cancelled with its task: release what it still claims.
            [begun] = await asyncio.gather(beginning, return_exceptions=True)
            if isinstance(begun, Claim):
                await asyncio.to_thread(unlock, begun, os.getpid(), cancelled)
            raise

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def idempotent_coroutine(message: T) -> Any:
            begun, process = await begin_unless_cancelled(message), os.getpid()
            if isinstance(begun, Duplicate):
                return begun.result[RETURNED]
            try:
                done = await asyncio.to_thread(settled, if_unknown, message, begun)
                returned = await handler(message, begun.message_id) if done is None else done.answer
                return await asyncio.to_thread(end, begun, returned)
            except BaseException as error:
                if not isinstance(error, GeneratorExit):  # a closed coroutine cannot await
                    # A cancelled task can still unlock: the thread is not cancelled with it.
                    await asyncio.shield(asyncio.to_thread(unlock, begun, process, error))
                raise

        return cast("Callable[[T], R]", idempotent_coroutine)

    @functools.wraps(handler)
    def idempotent(message: T) -> Any:
        begun, process = begin(message), os.getpid()
        if isinstance(begun, Duplicate):
            return begun.result[RETURNED]
        try:
            done = settled(if_unknown, message, begun)
            return end(begun, handler(message, begun.message_id) if done is None else done.answer)
        except BaseException as error:  # SystemExit too: the process may live on
            unlock(begun, process, error)
            raise

    return idempotent


def _marked(ledger: Store, lock_timeout: float, claim: Claim, returned: Any) -> Any:
    """Mark the message as processed, and return the answer that every delivery gets."""
    try:
        outcome = mark_processed(ledger, claim, returned)
    except InvalidEffects as unfit:  # the effect has happened: without a mark, each delivery would repeat it
        mark_processed(ledger, claim)
        unfit.add_note("the message is marked as processed, with the answer None: correct what the handler returns")
        raise
    match outcome:
        case Committed(result) | Duplicate(result):
            return result[RETURNED]
        case Fenced():
            raise LockLost(
                f"lock_timeout of {lock_timeout} s is shorter than the work, and another handler took over; raise it"
            )
