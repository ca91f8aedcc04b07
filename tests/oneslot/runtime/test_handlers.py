"""Idempotent handlers over a ledger: what runs, how often, with which key, and what other callers get."""

import asyncio
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from oneslot.runtime.effects import InvalidEffects, Unprocessable
from oneslot.runtime.handlers import Locked, LockLost, acquire, make_handler_idempotent, mark_processed, release
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Fenced
from oneslot.runtime.stores.memory import MemoryLedger
from tests.kits.consumer import Clock, Killed, surroundings

LOCK = 30.0
MESSAGE = {"id": "m-1", "text": "hello"}
Handle = Callable[[dict[str, str]], Any]


class World:
    """A ledger, its clock, and an outside system that counts what was done to it."""

    def __init__(self, asynchronous: bool) -> None:
        self.clock = Clock()
        self.ledger = MemoryLedger(surroundings=surroundings(self.clock))
        self.done: list[str] = []
        self.asynchronous = asynchronous

    def handler(self, during: Callable[[], Any] = lambda: {"sent": "hello"}, **changes: Any) -> Handle:
        """The wrapped handler, called synchronously whichever kind it is; after the effect it returns what `during` does."""

        def work(message: dict[str, str], key: str) -> Any:
            self.done.append(key)
            return during()

        async def work_later(message: dict[str, str], key: str) -> Any:
            await asyncio.sleep(0)
            return work(message, key)

        arguments: dict[str, Any] = {
            "id_generator": lambda message: message["id"],
            "ledger": self.ledger,
            "lock_timeout": LOCK,
            **changes,
        }
        wrapped: Any = make_handler_idempotent(work_later if self.asynchronous else work, **arguments)
        if not self.asynchronous:
            return cast("Handle", wrapped)

        async def call(message: dict[str, str]) -> Any:
            return await wrapped(message)

        return lambda message: asyncio.run(call(message))


# An event loop makes a socket pair for itself; it reaches no other host.
@pytest.fixture(params=["sync", pytest.param("async", marks=pytest.mark.enable_socket)])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param == "async")


@pytest.mark.parametrize(
    "returned",
    [
        *(7, "text", [1, None], {"a": {"b": True}}, 0, "", False, [], {}, None),
        *((1, 2), {"parts": (1, 2)}, {1: "one"}, {"by id": {7: None}}),
    ],
)
def test_first_call_returns_what_duplicates_get(world: World, returned: Any) -> None:
    """JSON has no tuples, and names of text only: what works in the first delivery would fail in a later one."""

    handle, expected = world.handler(lambda: returned), json.loads(json.dumps(returned))
    for answer in (handle(MESSAGE), handle(MESSAGE)):
        assert (type(answer), answer) == (type(expected), expected)
    assert world.done == ["m-1"]


def test_a_work_is_repeated_with_its_key_after_a_kill(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dead:
        dead.setattr(world.ledger, "release", die)
        with pytest.raises(Killed):
            world.handler(die)(MESSAGE)
    with pytest.raises(Locked) as raised:  # the lock was not released
        world.handler()(MESSAGE)
    assert raised.value.milliseconds == LOCK * 1000
    assert str(raised.value) == "another handler holds this message for at most 30000 ms; deliver it again then"
    world.clock.now += int(LOCK * 1000) + 1
    assert world.handler()(MESSAGE) == {"sent": "hello"}
    assert world.done == ["m-1", "m-1"]


@pytest.mark.parametrize("end", [ConnectionError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Killed])
def test_e_any_exit_unlocks_the_message(world: World, end: type[BaseException]) -> None:
    """Such as `sys.exit()` in a worker, whose other threads live on: nothing of it is swallowed."""

    def leave() -> None:
        raise end

    with pytest.raises(end):
        world.handler(leave)(MESSAGE)
    assert world.handler()(MESSAGE) == {"sent": "hello"}
    assert world.done == ["m-1", "m-1"]
    assert world.ledger.rows["m-1"]["consumption_count"] == 2


def test_e_forked_child_leaves_its_parents_lock_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_as_the_child() -> None:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        sys.exit()

    with pytest.raises(SystemExit):
        world.handler(leave_as_the_child)(MESSAGE)
    with pytest.raises(Locked):
        world.handler()(MESSAGE)


@pytest.mark.parametrize("error", [ConnectionError, SystemExit])
def test_e_handlers_error_is_raised_when_unlocking_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error("the handler's own")

    def refuse(claim: Claim) -> bool:
        raise TimeoutError("the ledger is down")

    with monkeypatch.context() as down:
        down.setattr(world.ledger, "release", refuse)
        with pytest.raises(error, match="the handler's own") as raised:
            world.handler(fail)(MESSAGE)
    assert raised.value.__notes__ == ["TimeoutError while the claim was released: its lease lasts to its end"]
    with pytest.raises(Locked):
        world.handler()(MESSAGE)


def test_f_second_handler_learns_how_long_to_wait(world: World) -> None:
    def meanwhile() -> None:
        world.clock.now += 10_000
        with pytest.raises(Locked) as raised:
            make_handler_idempotent(lambda m, k: None, lambda m: "m-1", world.ledger, LOCK)(MESSAGE)
        assert raised.value.milliseconds == raised.value.retry_after_ms == 20_000

    world.handler(meanwhile)(MESSAGE)
    assert world.done == ["m-1"]


def test_b_handler_slower_than_its_lock_raises_lock_lost(world: World) -> None:
    def overtaken() -> None:
        world.clock.now += int(LOCK * 1000) + 1
        assert isinstance(acquire(world.ledger, "m-1", LOCK), Claim)

    with pytest.raises(LockLost):
        world.handler(overtaken)(MESSAGE)
    row = world.ledger.rows["m-1"]
    assert (row["status"], row["lease_until"]) == ("IN_PROGRESS", world.clock() + LOCK * 1000)


def test_l_other_content_is_refused_when_compared(world: World) -> None:
    handle = world.handler(content=lambda message: str(message["text"]))
    handle(MESSAGE)
    with pytest.raises(Unprocessable) as raised:
        handle({**MESSAGE, "text": "other"})
    assert raised.value.reason == "conflict"
    assert world.handler(content=None) is not None
    assert world.done == ["m-1"]


@pytest.mark.parametrize("seconds", [0, -1.0, 0.0009])
def test_lock_under_a_millisecond_is_refused(world: World, seconds: float) -> None:
    with pytest.raises(ValueError, match="lock_timeout"):
        world.handler(lock_timeout=seconds)(MESSAGE)
    assert (world.done, dict(world.ledger.rows)) == ([], {})
    world.handler(lock_timeout=0.001)(MESSAGE)
    assert world.done == ["m-1"]


def test_p_a_message_without_an_id_never_runs_unprotected(world: World) -> None:
    def no_id(message: dict[str, str]) -> str:
        raise Unprocessable("missing_message_id", "the message has no id")

    with pytest.raises(Unprocessable):
        world.handler(id_generator=no_id)(MESSAGE)
    assert world.done == []


@pytest.mark.enable_socket
def test_a_closed_coroutine_ends_at_once() -> None:
    """Nothing can be awaited in it any more, and so its lock ends by itself."""
    world = World(asynchronous=True)

    async def scenario() -> None:
        started, never = asyncio.Event(), asyncio.Event()

        async def work(message: dict[str, str], key: str) -> None:
            started.set()
            await never.wait()

        wrapped = make_handler_idempotent(work, lambda message: message["id"], world.ledger, LOCK)
        coroutine: Any = wrapped(MESSAGE)
        task = asyncio.ensure_future(coroutine)
        await started.wait()
        coroutine.close()
        task.cancel()
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await task

    asyncio.run(scenario())
    assert world.ledger.rows["m-1"]["lease_until"] != 0


def cancelled_while_it_claims(release_fails: bool) -> MemoryLedger:
    """The thread that claims is not cancelled with its task."""
    world = World(asynchronous=True)
    claiming, go_on = threading.Event(), threading.Event()

    class Slow(MemoryLedger):
        def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
            claiming.set()
            go_on.wait()
            return super().claim(message_id, payload_hash, lease_until)

        def release(self, claim: Claim) -> bool:
            if release_fails:
                raise TimeoutError("the ledger is down")
            return super().release(claim)

    ledger = Slow(surroundings=surroundings(world.clock))

    async def work(message: dict[str, str], key: str) -> None:
        world.done.append(key)

    async def scenario() -> None:
        wrapped = make_handler_idempotent(work, lambda message: message["id"], ledger, LOCK)
        task = asyncio.ensure_future(wrapped(MESSAGE))
        await asyncio.to_thread(claiming.wait)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert world.done == []
    return ledger


@pytest.mark.enable_socket
def test_coroutine_cancelled_while_claiming_unlocks() -> None:
    assert cancelled_while_it_claims(release_fails=False).rows["m-1"]["lease_until"] == 0


@pytest.mark.enable_socket
def test_coroutine_stays_cancelled_when_unlocking_fails() -> None:
    assert cancelled_while_it_claims(release_fails=True).rows["m-1"]["lease_until"] != 0


@pytest.mark.enable_socket
def test_coroutine_is_cancelled_while_another_holds_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(asynchronous=True)
    acquire(world.ledger, "m-1", LOCK)
    released: list[object] = []
    monkeypatch.setattr(world.ledger, "release", released.append)

    async def work(message: dict[str, str], key: str) -> None:
        raise AssertionError("another has the lock")

    async def scenario() -> None:
        wrapped = make_handler_idempotent(work, lambda message: message["id"], world.ledger, LOCK)
        task = asyncio.ensure_future(wrapped(MESSAGE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert released == []


def test_the_wrapped_handler_keeps_its_name_and_kind(world: World) -> None:
    async def send_mail(message: str, key: str) -> None:
        """Send it."""

    wrapped: Any = make_handler_idempotent(send_mail, lambda message: message, world.ledger, LOCK)
    assert (wrapped.__name__, wrapped.__doc__) == ("send_mail", "Send it.")
    assert inspect.iscoroutinefunction(wrapped)


def test_the_verbs_by_themselves() -> None:
    ledger = World(asynchronous=False).ledger
    first = acquire(ledger, "m", LOCK, "content")
    assert isinstance(first, Claim)
    assert acquire(ledger, "m", LOCK, "content") == Busy(30_000)
    assert acquire(ledger, "m", LOCK, "other content") == Conflict()
    assert release(ledger, first)
    second = acquire(ledger, "m", LOCK, "content")
    assert isinstance(second, Claim)
    assert mark_processed(ledger, first) == Fenced(first)
    assert not release(ledger, first)
    assert mark_processed(ledger, second, 7) == Committed({"returned": 7})
    assert acquire(ledger, "m", LOCK, "content") == Duplicate({"returned": 7}, 2, second.claimed_by)


@pytest.mark.parametrize("unfit", [object(), float("nan"), "x" * 400_000])
def test_effect_happens_once_when_its_answer_cannot_be_recorded(world: World, unfit: Any) -> None:
    handle = world.handler(lambda: unfit)

    with pytest.raises(InvalidEffects) as raised:
        handle(MESSAGE)

    assert "marked as processed, with the answer None" in raised.value.__notes__[0]
    assert [handle(MESSAGE) for _ in range(9)] == [None] * 9
    assert world.done == ["m-1"]
