"""Time, ids, random numbers and threads inside the handler: they are the explorer's."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import random
import socket
import subprocess
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import boto3.s3.transfer

from oneslot.explorer.handlers.http import answered
from oneslot.explorer.handlers.threads import as_strands
from oneslot.explorer.refusal import NotExplorable

try:
    import _time_machine
    import time_machine
except ImportError as error:  # pragma: no cover
    raise NotExplorable(
        "The explorer moves the clock with time-machine. Run `pip install oneslot[explorer]`."
    ) from error

Running = Callable[[], Any]

_TRANSFER: Any = boto3.s3.transfer


class Clock:
    """What time-machine asks for the time: the running process, or else the real clock."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def time_ns(self) -> int:
        """Return the time of the running process, which notes the reading."""
        process = self._running()
        return int(_time_machine.original_time_ns() if process is None else process.read_clock() * 1_000_000)


class LogClock:
    """A replacement of `time` in `logging`: the time of a log line is not an observation of the code."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        """Return the time (s) of the running process, which does not note the reading."""
        process = self._running()
        return float(time.time() if process is None else process.now / 1000)

    def time_ns(self) -> int:
        """Return the same in nanoseconds."""
        return int(self.time() * 1e9)


class Draws(random.Random):
    """Random numbers that the explorer draws."""

    def __init__(self, running: Running) -> None:
        self._running = running
        super().__init__(0)

    def random(self) -> float:
        """Return the next number of the running process."""
        return self._running().draw()  # type: ignore[no-any-return]


REFUSED: tuple[tuple[Any, str, str, str], ...] = (
    (threading.Thread, "start", "a thread", "Use a ThreadPoolExecutor, or call the function directly"),
    (asyncio.BaseEventLoop, "run_in_executor", "a thread of asyncio", "Await plain coroutines"),
    (socket.socket, "connect", "a socket that is not of HTTP", "Let the test replace that client"),
    (socket, "getaddrinfo", "a socket that is not of HTTP", "Let the test replace that client"),
    (subprocess.Popen, "__init__", "a subprocess", "Let the test replace it"),
    (os, "fork", "a fork", "Let the test replace it"),
)


@contextmanager
def taken_over(running: Running, environment: dict[str, str]) -> Iterator[None]:
    """Take over what a process perceives beside its calls; leave all else in the interpreter as it is.

    Only this thread runs processes. Another one, such as a library's, keeps the real clock and its own calls.
    """
    if datetime.datetime.__name__ == "FakeDatetime":
        raise NotExplorable(
            "freezegun is active, and the explorer moves the clock itself. Leave freezegun out of this test."
        )
    running = _in_this_thread(running)
    draws = Draws(running)
    with ExitStack() as stack:
        patch = stack.enter_context
        patch(mock.patch.dict(os.environ, environment))
        patch(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for owner, name, what, remedy in REFUSED:
            patch(mock.patch.object(owner, name, _refusing(running, getattr(owner, name), what, remedy)))
        for name in dir(random):
            bound = getattr(random, name)
            if getattr(bound, "__self__", None) is random._inst:
                patch(mock.patch.object(random, name, _either(running, getattr(draws, name), bound)))
        entropy = _either(running, lambda size: running().unique_bytes(size), os.urandom)
        patch(mock.patch.object(os, "urandom", entropy))
        patch(mock.patch.object(random, "_urandom", entropy))
        patch(mock.patch.object(uuid, "uuid1", _either(running, lambda *_, **__: uuid.uuid4(), uuid.uuid1)))
        patch(mock.patch.object(time, "sleep", _either(running, lambda seconds: running().sleep(seconds), time.sleep)))
        patch(mock.patch.object(logging, "time", LogClock(running)))
        for name in ("monotonic", "perf_counter"):
            patch(mock.patch.object(time, name, _either(running, time.time, getattr(time, name))))
        patch(answered(running))
        patch(as_strands(running))
        patch(mock.patch.object(_TRANSFER, "TransferManager", _in_one_thread(running)))
        if not time_machine.traveller_stack:
            _time_machine.patch()
            stack.callback(_time_machine.unpatch)
        time_machine.traveller_stack.append(Clock(running))  # type: ignore[arg-type]
        stack.callback(time_machine.traveller_stack.pop)
        yield


def _in_one_thread(running: Running) -> Any:
    """Return S3's transfer manager, which inside the handler moves files without threads of its own."""
    manager = _TRANSFER.TransferManager

    def transfer_manager(client: Any, config: Any, osutil: Any = None, executor_cls: Any = None) -> Any:
        executor = executor_cls if running() is None else _TRANSFER.NonThreadedExecutor
        return manager(client, config, osutil, executor)

    return transfer_manager


def _in_this_thread(running: Running) -> Running:
    here = threading.get_ident()
    return lambda: running() if threading.get_ident() == here else None


def _either(running: Running, inside: Any, outside: Any) -> Any:
    def function(*values: Any, **named: Any) -> Any:
        return (outside if running() is None else inside)(*values, **named)

    return function


def _refusing(running: Running, original: Any, what: str, remedy: str) -> Any:
    def function(*values: Any, **named: Any) -> Any:
        if running() is not None:
            running().refuse(f"The handler uses {what}, which the explorer cannot schedule. {remedy}.")
        return original(*values, **named)

    return function
