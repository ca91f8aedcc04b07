"""Time and chance, and the one way to wait before a retry: full jitter, growing, within a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

T = TypeVar("T")

FIRST_BACKOFF_MS = 25
LONGEST_BACKOFF_MS = 1_000
REPORTING_MS = 1_500
"""Left of a lease for reporting an error: once Lambda ends the invocation, nothing of its batch is reported."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The protocol's inputs from outside: time (epoch ms), fresh random ids, sleep (s) and jitter (0 to 1)."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: uuid4().hex
    sleep: Callable[[float], None] = time.sleep
    # The system's generator: a SnapStart snapshot would give every environment the same numbers.
    jitter: Callable[[], float] = random.SystemRandom().random


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
