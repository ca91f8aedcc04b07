"""Short leases that are kept alive: a dead consumer's message is free again in seconds, however long the work may take.

With a plain ledger the lease is the attempt's whole deadline, so a consumer that dies early blocks its message until then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Store, Taken

BEATS_PER_LEASE = 3
"""Two extensions may fail before a lease ends."""


@dataclass(slots=True)
class _Held:
    """A lease that is kept. `began` is by the host's clock, `begun` by the one that nobody puts forward or back."""

    claim: Claim
    deadline: int
    end: int
    began: int
    begun: int


class RenewingLedger:
    """A `Store` around another one. Claims are made for `lease_seconds`, and extended while this process lives.

    Never beyond the `lease_until` that the claim asked for: work that hangs loses its message then. Use it as a context
    manager; a thread of its own extends the leases. A lease that was lost is not extended any more; the commit is fenced.
    `steady_ms` is a clock that nobody puts forward or back, from whatever beginning: by it the work's time goes on.

    Raises `ValueError` for a `lease_seconds` of less than a millisecond.
    """

    def __init__(
        self,
        ledger: Store,
        *,
        lease_seconds: float,
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._ledger = ledger
        self._lease_ms = int(lease_seconds * 1000)
        if self._lease_ms < 1:
            raise ValueError(
                f"lease_seconds of {lease_seconds} keeps nothing; make it several times as long as a call takes"
            )
        self.surroundings = ledger.surroundings
        self._steady_ms = steady_ms
        self._held: dict[str, _Held] = {}  # by `claimed_by`
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_ended, name="leases", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim for a short lease, which is kept until `lease_until` (epoch ms) at the latest.

        Raises `RuntimeError` after the `with` block: nothing extends a lease any more.
        """
        if self._ended.is_set():
            raise RuntimeError("this RenewingLedger has ended and keeps no lease; claim within its `with` block")
        began, begun = self.surroundings.now_ms(), self._steady_ms()
        first = min(lease_until, began + self._lease_ms)
        outcome = self._ledger.claim(message_id, payload_hash, first)
        if not isinstance(outcome, Claim):
            return outcome
        with self._lock:
            self._held[outcome.claimed_by] = _Held(outcome, lease_until, outcome.lease_until, began, begun)
        return replace(outcome, lease_until=lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Commit; the lease is kept as long as the answer leaves work to do."""
        outcome = self._ledger.commit(claim, effects)
        if not isinstance(outcome, Taken | Exists):
            self._forget(claim)
        return outcome

    def release(self, claim: Claim) -> bool:
        """End the lease now."""
        self._forget(claim)
        return self._ledger.release(claim)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until`, or the end that it has if that is later; from then on nothing extends it."""
        self._forget(claim)
        return self._ledger.extend(claim, lease_until)

    def beat(self) -> None:
        """Extend every lease that will end soon. The thread calls it; call it yourself to do without."""
        wall, steady = self.surroundings.now_ms(), self._steady_ms()
        with self._lock:
            every = list(self._held.values())
        for held in every:
            now = held.began + steady - held.begun
            # Whether this host's clock has gone wrong or is right at last: to the others it is long enough.
            latest = max(now, wall)
            until = min(held.deadline, latest + self._lease_ms)
            due = until > held.end and held.end - latest <= self._lease_ms - self._lease_ms // BEATS_PER_LEASE
            if now >= held.deadline or (due and not self._extended(held, until)):
                self._forget(held.claim)

    def _extended(self, held: _Held, until: int) -> bool:
        """False if the claim is no longer ours. An error is not that: the next beat tries again."""
        # Its own patience, which is by the host's clock, must not outlast the lease that it wants to extend.
        patience = min(until, self.surroundings.now_ms() + self._lease_ms)
        try:
            ours = self._ledger.extend(replace(held.claim, lease_until=patience), until)
        except Exception:  # whatever the store's client raises
            return True
        held.end = until
        return ours

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(claim.claimed_by, None)

    def _beat_until_ended(self) -> None:
        while not self._ended.wait(self._lease_ms / 1000 / BEATS_PER_LEASE):
            self.beat()
