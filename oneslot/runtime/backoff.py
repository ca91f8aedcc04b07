"""The one way to wait before a retry: full jitter, growing, within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oneslot.runtime.surroundings import Surroundings

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
