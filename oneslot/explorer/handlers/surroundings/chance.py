"""Time and chance of the standard library inside the handler: the explorer chooses each of them, or fixes it."""

import atexit
import dataclasses
import datetime
import math
import os
import platform
import random
import resource
import selectors
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation
from oneslot.explorer.handlers.surroundings.replaced import Replacement, Running, within

_CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time")
_SELECTORS = ("EpollSelector", "KqueueSelector", "PollSelector", "SelectSelector")
_FIRST = 8
"""The number of a process on Lambda, where most environments give the same one."""

LOG_STREAM = "2026/11/20/[$LATEST]"
"""How the name of each log stream begins. The variable of one that is not asked for has no more."""

DRAW = "random.random"
"""The name of the call by which the explorer chooses a random number."""

HASH = "hash"
"""The name of `hashed` in a handler's modules."""

_SAMPLED_LOG = "aws_lambda_powertools.logging.logger"
"""Powertools draws here whether it logs more. It samples no invocation: what a log has is not an effect."""

_BY_RANDOM: Any = random.Random._randbelow_without_getrandbits  # type: ignore[attr-defined]


class Draws(random.Random):
    """The random numbers of one environment: the explorer draws them, unless the handler has given a seed."""

    def __init__(self, running: Running) -> None:
        self._running, self.is_seeded = running, False
        super().__init__()

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Take numbers from this seed; from the explorer without one."""
        self.is_seeded = a is not None
        super().seed(0 if a is None else a, version)

    def random(self) -> float:
        """Return the next number."""
        return super().random() if self.is_seeded else self._running().draw()

    def getrandbits(self, k: int, /) -> int:
        """Return a number of `k` bits, which no other invocation gets."""
        if self.is_seeded:
            return super().getrandbits(k)
        return int.from_bytes(self._running().unique_bytes((k + 7) // 8), "big") >> -k % 8

    _randbelow = _BY_RANDOM  # so that choices are drawn both ways, too


def hashed(value: Any, /) -> int:
    """Return a hash as Lambda does: that of a text is another one in each environment.

    A method `__hash__` gets Python's own, because a dict compares it with those of texts.
    """
    process: Any = RunningInvocation.running
    if process is None or sys._getframe(1).f_code.co_name == "__hash__" or not _is_of_text(value):
        return hash(value)
    return hash((process.seed_of_environment(), value))


def _is_of_text(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return any(map(_is_of_text, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(_is_of_text(getattr(value, one.name)) for one in dataclasses.fields(value))
    return isinstance(value, (str, bytes, datetime.date, datetime.time))


def own_chance(running: Running) -> Iterator[Replacement]:
    """Yield what gives the processes that `running` returns their own random numbers, ids and clocks."""
    for owner, name, inside in (*_numbers(), *_clocks()):
        if hasattr(owner, name):
            yield owner, name, within(running, inside, getattr(owner, name))
    for owner, name, inside in _of_machine():
        yield owner, name, within(running, _in_own_modules(inside), getattr(owner, name))


def _numbers() -> Iterator[Replacement]:
    for name in dir(random):
        if getattr(getattr(random, name), "__self__", None) is random._inst:
            yield random, name, _drawn(name)

    def seeded(process: Any, original: Any, generator: Any, a: Any = None, version: int = 2) -> None:
        original(generator, int.from_bytes(process.unique_bytes(32), "big") if a is None else a, version)

    yield random.Random, "seed", seeded
    for owner, name in ((os, "urandom"), (os, "getrandom"), (random, "_urandom"), (ssl, "RAND_bytes")):
        yield owner, name, lambda process, _, size, *flags: process.unique_bytes(size)
    for name in ("uuid1", "uuid6", "uuid7"):
        yield uuid, name, lambda process, _, *values, **named: uuid.uuid4()
    yield tempfile, "_get_candidate_names", lambda process, _: iter(lambda: process.unique_bytes(6).hex(), None)


def _clocks() -> Iterator[Replacement]:
    for name in _CLOCKS:
        yield time, name, lambda process, _: time.time()
        yield time, f"{name}_ns", lambda process, _: time.time_ns()
    yield time, "clock_gettime", lambda process, _, clock: time.time()
    yield time, "clock_gettime_ns", lambda process, _, clock: time.time_ns()
    yield time, "ctime", lambda process, original, at=None: original(time.time() if at is None else at)
    yield time, "asctime", lambda process, original, at=None: original(time.localtime() if at is None else at)
    yield time, "sleep", lambda process, _, seconds: process.sleep(seconds)
    yield os, "times", lambda process, _: os.times_result((time.time(), 0.0, 0.0, 0.0, time.time()))
    yield os.environ, "decodevalue", _variable
    yield resource, "getrusage", lambda process, _, who: resource.struct_rusage((time.time(), *(0,) * 15))
    for name in _SELECTORS:
        if hasattr(selectors, name):
            yield getattr(selectors, name), "select", _selected
    yield socket, "getfqdn", lambda process, _, name="": name or "explored"


def _of_machine() -> Iterator[Replacement]:
    """Yield what only the handler's own calls see changed, because libraries call it for what no one else sees."""
    for owner, name in ((os, "getpid"), (os, "getppid"), (uuid, "getnode")):
        yield owner, name, lambda process, _: _FIRST + process.number_of_environment()
    for name in ("get_ident", "get_native_id"):
        yield threading, name, lambda process, _: _FIRST + process.number_of_environment()
    for owner, name in ((socket, "gethostname"), (platform, "node")):
        yield owner, name, lambda process, _: f"host-{process.number_of_environment()}"
    yield os, "uname", _uname
    yield atexit, "register", lambda process, _, function, *others, **named: function  # Lambda kills its environments
    yield signal, "signal", _signal_set
    for name in ("alarm", "getsignal", "setitimer"):
        yield signal, name, partial(_signal_refused, name)


def _drawn(name: str) -> Any:
    def drawn(process: Any, _: Any, *values: Any, **named: Any) -> Any:
        if sys._getframe(2).f_globals.get("__name__") == _SAMPLED_LOG:
            return 1.0
        return getattr(process.random, name)(*values, **named)

    return drawn


def _selected(process: Any, original: Any, selector: Any, timeout: float | None = None) -> Any:
    """Wait in the explorer's time, as the event loop of asyncio does for its threads and its next timer, if that is due."""
    process.awaited = [one for one in process.awaited if not one.done()]
    seconds = timeout and math.ceil(timeout * 1000 + 1) / 1000  # a timer is due after its time, not at it
    if process.awaited and timeout != 0:
        process.wait_for_any(process.awaited, seconds)
    elif timeout is None:
        process.refuse(
            "The handler waits for a file or a socket, which the explorer cannot schedule. Await coroutines."
        )
    elif timeout > 0:
        process.sleep(seconds)
    return original(selector, 0)


def _variable(process: Any, original: Any, value: bytes) -> str:
    text: str = original(value)
    return process.log_stream() if text == LOG_STREAM else text


def _uname(process: Any, original: Any) -> Any:
    found = original()
    return os.uname_result((found.sysname, f"host-{process.number_of_environment()}", *tuple(found)[2:]))


def _signal_set(process: Any, _: Any, number: int, handler: Any) -> Any:
    """Drop what an import sets, because Lambda signals only the end. Within an invocation it would be a mark."""
    if not process.is_importing:
        _signal_refused("signal", process)
    return signal.SIG_DFL


def _signal_refused(name: str, process: Any, *_: Any) -> None:
    process.refuse(
        f"The handler calls signal.{name}, which the explorer does not control. Set a signal's handler when the module is "
        "imported, and keep marks in a table, a module or /tmp."
    )


def _in_own_modules(inside: Callable[..., Any]) -> Callable[..., Any]:
    def function(process: Any, original: Any, *values: Any, **named: Any) -> Any:
        caller = sys._getframe(2).f_globals.get("__name__")
        if caller not in process.environment.modules:
            return original(*values, **named)
        return inside(process, original, *values, **named)

    return function
