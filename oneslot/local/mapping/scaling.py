"""The number of concurrent batches: Lambda's scaling of an SQS event source.

The Lambda guide ("Configuring scaling behavior for SQS event source mappings"): five concurrent batches at first; up to
300 more a minute while messages arrive; at most 1,250 per mapping, or its MaximumConcurrency. After function errors
Lambda backs off by an unpublished amount; here the number halves, and grows again from there.
"""

from __future__ import annotations

from oneslot.runtime.surroundings import Surroundings

FIRST_CONCURRENCY = 5
GROWTH_PER_SECOND = 300 / 60
HIGHEST_CONCURRENCY = 1250


class Scaling:
    """The number of concurrent batches allowed now. Safe to use from many threads."""

    def __init__(self, maximum: int | None, surroundings: Surroundings) -> None:
        """maximum: the mapping's MaximumConcurrency, None if it has none."""
        self._maximum = HIGHEST_CONCURRENCY if maximum is None else maximum
        self._clock = surroundings.steady
        self._lock = surroundings.threads.lock()
        self._base = float(FIRST_CONCURRENCY)
        self._since = self._clock()

    def allowed(self) -> int:
        """Return how many batches may run at once now: at least 1."""
        with self._lock:
            return int(self._now())

    def nothing_received(self) -> None:
        """Restart the growth, because a poll returned nothing and the backlog is gone."""
        with self._lock:
            self._restart(min(self._now(), FIRST_CONCURRENCY))

    def function_error(self) -> None:
        """Halve the number, because an invocation failed as a whole."""
        with self._lock:
            self._restart(max(1.0, self._now() / 2))

    def _now(self) -> float:
        grown = self._base + GROWTH_PER_SECOND * (self._clock() - self._since)
        return max(1.0, min(grown, self._maximum))

    def _restart(self, base: float) -> None:
        self._base = base
        self._since = self._clock()
