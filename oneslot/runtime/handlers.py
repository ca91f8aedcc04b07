"""Idempotent handlers for work that cannot be described as `Effects`: a mail, a payment, a file.

What is guaranteed. Each message is worked on by one handler at a time, and once it is marked as processed, never again:
every later delivery gets the stored answer. A crash between the effect and the mark is the one gap, and nobody can close
it from here: the work is then done again. So effects outside the ledger's own transaction happen **at least once**. The
handler is given a key that is the same in every attempt at the same message, to be passed on to whatever takes it
(an `Idempotency-Key` header, a payment reference, a file's name, a primary key), which makes the repetition harmless.

If your effect is a write to the ledger's own store, use `@exactly_once` instead: it has no gap.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, overload

from oneslot.runtime.effects import Effects, conflict
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Fenced, Store

M = TypeVar("M")
R = TypeVar("R")

RETURNED = "returned"
"""Where a handler's return value is in the ledger's result."""


class Locked(Exception):
    """Another handler is at work on this message. Deliver it again in `milliseconds`."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(f"another handler is at work on this message for at most {milliseconds} ms")
        self.milliseconds = milliseconds


class LockLost(Exception):
    """The handler ran longer than its lock, and another has the message now. Its work may be done twice.

    Deliver the message again, and raise `lock_timeout`.
    """


def acquire(
    ledger: Store, message_id: str, lock_timeout: float, content: str = ""
) -> Claim | Duplicate | Busy | Conflict:
    """Begin: take the message's lock for `lock_timeout` seconds.

    Args:
        content: a digest of what the message says. The same id with another digest is a `Conflict`. Always the same
            text, as by default, switches that check off.

    Raises `ValueError` for a `lock_timeout` of less than a millisecond: the lock would hold nobody off.

    Returns:
        `Claim`: yours; work, then `mark_processed` or `release`. `claim.message_id` is the stable idempotency key.
        `Duplicate`: processed before; this is its result. `Busy`: somebody else's for so many milliseconds more.
    """
    return ledger.claim(message_id, content, _until(ledger, lock_timeout))


def mark_processed(ledger: Store, claim: Claim, returned: Any = None) -> Committed | Duplicate | Fenced:
    """End well: record the result for ever. Call it *after* the effect: the other order loses work at a crash.

    `Duplicate` and `Fenced` say that the lock had ended and another handler processed the message, or is about to: the
    effect may be there twice. Raises `InvalidEffects` if `returned` is no JSON or over 390,000 bytes.
    """
    return cast("Committed | Duplicate | Fenced", ledger.commit(claim, Effects({RETURNED: returned})))


def release(ledger: Store, claim: Claim) -> bool:
    """End badly: give the lock back now, so that the next delivery can try at once. False if it was lost already."""
    return ledger.release(claim)


@overload
def make_handler_idempotent(
    handler: Callable[[M, str], Awaitable[R]],
    id_generator: Callable[[M], str],
    ledger: Store,
    lock_timeout: float,
    content: Callable[[M], str] | None = None,
) -> Callable[[M], Awaitable[R]]: ...


@overload
def make_handler_idempotent(
    handler: Callable[[M, str], R],
    id_generator: Callable[[M], str],
    ledger: Store,
    lock_timeout: float,
    content: Callable[[M], str] | None = None,
) -> Callable[[M], R]: ...


def make_handler_idempotent(
    handler: Callable[[M, str], Any],
    id_generator: Callable[[M], str],
    ledger: Store,
    lock_timeout: float,
    content: Callable[[M], str] | None = None,
) -> Callable[[M], Any]:
    """Wrap `handler(message, idempotency_key)`; the result is called with the message alone.

    At least once for effects outside the ledger's transaction, never two at a time within `lock_timeout`, never again
    once it has returned. Every call gets the same answer: the first one's return value, as JSON has it.

    Args:
        handler: a function, or a coroutine function; the wrapped one is of the same kind. Its second argument is the
            same in every attempt at the same message: hand it on.
        id_generator: the message → its id. Raise `Unprocessable` where there is none; never invent one.
        lock_timeout: seconds. Longer than the longest run: a lock that ends early lets a second handler start.
        content: the message → a digest of what it says; the same id with another digest is refused. None: no check.

    The wrapped handler raises, besides what the handler raises (its lock is given back then, after `sys.exit()` as well):
        Locked: another is at work on it. Deliver it again later.
        LockLost: the lock ended while the handler ran, and another took over.
        Unprocessable: `conflict`, the id was used before with another content.
        InvalidEffects: the return value is no JSON; the lock is given back.
    """

    def begin(message: M) -> Claim | Duplicate:
        outcome = acquire(ledger, id_generator(message), lock_timeout, content(message) if content else "")
        match outcome:
            case Busy(milliseconds):
                raise Locked(milliseconds)
            case Conflict():
                raise conflict()
            case _:
                return outcome

    def end(claim: Claim, returned: Any) -> Any:
        match mark_processed(ledger, claim, returned):
            case Committed(result) | Duplicate(result):
                return result[RETURNED]
            case Fenced():
                raise LockLost(f"lock_timeout of {lock_timeout} s is shorter than the work; another has the message")

    def give_back(claim: Claim, process: int, error: BaseException) -> None:
        if os.getpid() != process:
            return  # a child that the handler forked: its parent may be at work
        try:
            release(ledger, claim)
        except Exception as another:  # whatever the store's client raises: `error` is what has to be told
            error.add_note(f"{type(another).__name__} while its lock was given back: it may last for lock_timeout")

    async def begin_unless_cancelled(message: M) -> Claim | Duplicate:
        beginning = asyncio.ensure_future(asyncio.to_thread(begin, message))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError as cancelled:
            # The thread is not cancelled with its task: what it still claims is given back.
            [begun] = await asyncio.gather(beginning, return_exceptions=True)
            if isinstance(begun, Claim):
                await asyncio.to_thread(give_back, begun, os.getpid(), cancelled)
            raise

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def idempotent_coroutine(message: M) -> Any:
            begun, process = await begin_unless_cancelled(message), os.getpid()
            if isinstance(begun, Duplicate):
                return begun.result[RETURNED]
            try:
                returned = await handler(message, begun.message_id)
                return await asyncio.to_thread(end, begun, returned)
            except BaseException as error:
                if not isinstance(error, GeneratorExit):  # in a coroutine that is closed nothing can be awaited
                    # A cancelled task may still give its lock back: the thread is not cancelled with it.
                    await asyncio.shield(asyncio.to_thread(give_back, begun, process, error))
                raise

        return idempotent_coroutine

    @functools.wraps(handler)
    def idempotent(message: M) -> Any:
        begun, process = begin(message), os.getpid()
        if isinstance(begun, Duplicate):
            return begun.result[RETURNED]
        try:
            return end(begun, handler(message, begun.message_id))
        except BaseException as error:  # `sys.exit()` as well: whoever catches it may live on, and the lock with him
            give_back(begun, process, error)
            raise

    return idempotent


def _until(ledger: Store, lock_timeout: float) -> int:
    milliseconds = int(lock_timeout * 1000)
    if milliseconds < 1:
        raise ValueError(f"lock_timeout of {lock_timeout} s locks nothing; give the longest that the work may take")
    return ledger.surroundings.now_ms() + milliseconds
