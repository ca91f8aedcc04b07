"""Everything that code takes from outside of itself: clocks, chance, threads, and writes that must reach the disk.

Real by default; the simulation and unit tests give virtual ones. No other module of the runtime, the worker, the mapping,
`sending` or `repair` names `time`, `threading`, `queue`, `random`, `uuid` or `concurrent.futures`. `Backoff` is the one way to
wait before a retry.
"""

import concurrent.futures
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Full
from typing import Any, Protocol, TypeVar

__all__ = [
    "Condition",
    "Empty",
    "Event",
    "Executor",
    "Full",
    "Future",
    "Lock",
    "Queue",
    "Surroundings",
    "Thread",
    "Threads",
]


class Thread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most `timeout` seconds."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""


Lock = AbstractContextManager[Any]
"""A lock for a `with` block; not reentrant."""


class Condition(AbstractContextManager[Any], Protocol):
    """A condition variable with its lock, for a `with` block; reentrant."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, at most `timeout` seconds; return whether it does."""

    def notify(self, n: int = 1) -> None:
        """Wake `n` waiting threads."""

    def notify_all(self) -> None:
        """Wake every waiting thread."""


class Event(Protocol):
    """A flag that threads wait for."""

    def set(self) -> None:
        """Raise the flag, and wake every waiting thread."""

    def is_set(self) -> bool:
        """Return whether the flag is raised."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is raised, at most `timeout` seconds; return whether it is."""


class Queue(Protocol):
    """A queue between threads. `get` raises `Empty` and `put` raises `Full` after `timeout` seconds; None waits for ever."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; wait for room."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest item; wait for one."""


class Threads:
    """Threads and what they share, from Python's standard library."""

    def start(self, target: Callable[[], None], name: str) -> Thread:
        """Start a daemon thread."""
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def lock(self) -> Lock:
        """Return a new lock."""
        return threading.Lock()

    def condition(self) -> Condition:
        """Return a new condition variable."""
        return threading.Condition()

    def event(self) -> Event:
        """Return a new flag, lowered."""
        return threading.Event()

    def queue(self, size: int = 0) -> Queue:
        """Return a new queue for at most `size` items; 0 for any number."""
        return queue.Queue(size)

    def executor(self, workers: int, name: str) -> Executor:
        """Return a new executor of at most `workers` threads."""
        return ThreadPoolExecutor(workers, name)

    def wait_for_first(
        self, futures: Collection[Future[Any]], timeout: float | None = None
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """Wait until one future is done, at most `timeout` seconds; return those that are done, and the others."""
        return tuple(concurrent.futures.wait(futures, timeout, FIRST_COMPLETED))  # type: ignore[return-value]


def append_synced(path: Path, data: bytes) -> None:
    """Append to a file that only its owner can read, and wait until the bytes are on disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What code takes from outside of itself.

    Attributes:
        now_ms: the wall clock, epoch ms; an operator may set it.
        new_id: a fresh random id of 32 hexadecimal digits.
        sleep: pauses the calling thread for this many seconds.
        jitter: a random number from 0 to 1.
        steady: a clock in seconds that is never set.
        threads: threads, and what they share.
        append: appends bytes to a file, and waits until they are on disk.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: os.urandom(16).hex()
    sleep: Callable[[float], None] = time.sleep
    # The system's generator: a SnapStart snapshot would give every environment the same numbers.
    jitter: Callable[[], float] = random.SystemRandom().random
    steady: Callable[[], float] = time.monotonic
    threads: Threads = field(default_factory=Threads)
    append: Callable[[Path, bytes], None] = append_synced


T = TypeVar("T")

FIRST_BACKOFF_MS = 25
LONGEST_BACKOFF_MS = 1_000
REPORTING_MS = 1_500
"""Left of a lease for reporting an error: once Lambda ends the invocation, nothing of its batch is reported."""


class Backoff:
    """Pauses before a retry, each at most twice as long as the one before, while there is time.

    Time is up `REPORTING_MS` before `deadline`, or halfway from `started` to a nearer deadline (epoch ms; default now).
    """

    def __init__(self, surroundings: Surroundings, deadline: int, started: int | None = None) -> None:
        self._surroundings = surroundings
        started = surroundings.now_ms() if started is None else started
        self._end = deadline - max(0, min(REPORTING_MS, (deadline - started) // 2))
        self._ceiling = FIRST_BACKOFF_MS

    def pause(self) -> bool:
        """Sleep, and return True; return False at once if the pause would outlast the time."""
        pause = self._surroundings.jitter() * self._ceiling
        if self._surroundings.now_ms() + pause >= self._end:
            return False
        self._surroundings.sleep(pause / 1000)
        self._ceiling = min(LONGEST_BACKOFF_MS, self._ceiling * 2)
        return True


def retry(call: Callable[[], T], error: Exception, is_transient: Callable[[Exception], bool], backoff: Backoff) -> T:
    """Repeat a call that failed with `error`, after each transient error while there is time; then raise the last one."""
    while is_transient(error) and backoff.pause():
        try:
            return call()
        except Exception as another:
            error = another
    raise error
