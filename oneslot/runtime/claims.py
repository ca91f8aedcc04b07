"""The claims that a worker's handler holds: renewed while it runs, released with their message.

On Lambda a lease lasts until the invocation's deadline, which is near. A worker's handler may run for many minutes, and a
killed worker's message would wait as long. So a worker's leases are short, and its heartbeat renews them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace

from oneslot.runtime.protocol import Claim, Store
from oneslot.runtime.surroundings import Surroundings

Release = Callable[[], object]

BEATS_PER_LEASE = 3
"""Two renewals may fail before a lease ends."""


@dataclass(slots=True, eq=False)
class _Held:
    """A lease to renew. `began` is the host's wall clock, `begun` the steady clock, the others epoch ms."""

    store: Store
    claim: Claim
    until: int
    end: int
    lease_ms: int
    began: int
    begun: int


class Claims:
    """The claims of one message in work. Safe to use from many threads.

    Args:
        lease_seconds: how long a lease lasts without a renewal.
        deadline: the message's hard limit, in seconds of the steady clock; no renewed lease lasts longer.
    """

    def __init__(self, surroundings: Surroundings, lease_seconds: float, deadline: float) -> None:
        self.lease_ms = int(lease_seconds * 1000)
        self._surroundings = surroundings
        self._deadline = deadline
        self._lock = surroundings.threads.lock()
        self._held: list[_Held] = []
        self._releases: list[Release] = []
        self._released = False

    def hold(self, store: Store, claim: Claim, began: int, until: int | None) -> Claim:
        """Renew a claim from now on; return it as its holder sees it.

        Args:
            began: when it was asked for (epoch ms).
            until: when its work must end (epoch ms); None for the hard limit.
        """
        now = store.surroundings.now_ms()
        if until is None:
            left = self._deadline - self._surroundings.steady()
            until = max(claim.lease_until, now + int(left * 1000))
        held = _Held(store, claim, until, claim.lease_until, claim.lease_until - began, now, _steady_ms(store))
        with self._lock:
            self._held.append(held)
        return replace(claim, lease_until=until)

    def renew(self) -> None:
        """Extend each lease of which a third has passed. One that was lost or has ended is extended no more."""
        with self._lock:
            every = list(self._held)
        for held in every:
            wall = held.store.surroundings.now_ms()
            now = held.began + _steady_ms(held.store) - held.begun
            # By the later of both clocks, so that the lease is long enough for hosts with either time.
            latest = max(now, wall)
            until = min(held.until, latest + held.lease_ms)
            due = until > held.end and held.end - latest <= held.lease_ms - held.lease_ms // BEATS_PER_LEASE
            if now >= held.until or (due and not _extended(held, until, wall)):
                with self._lock:
                    self._held.remove(held)

    def add(self, release: Release) -> None:
        """Register a claim's release, or call it if the message was released before."""
        with self._lock:
            if not self._released:
                self._releases.append(release)
                return
        release()

    def release(self) -> list[Exception]:
        """Call every release; return what was raised."""
        with self._lock:
            self._released = True
        errors = []
        for release in self._releases:
            try:
                release()
            except Exception as error:
                errors.append(error)
        return errors


current: ContextVar[Claims | None] = ContextVar("claims", default=None)
"""The claims of the message that the calling code works on; None outside a worker."""


def on_release(release: Release) -> None:
    """Let a worker call `release` if it makes the message in work visible while its handler runs. Elsewhere do nothing.

    Call it after a claim whose work may be fenced or may overlap: the next worker can begin before this handler has ended.
    """
    if (claims := current.get()) is not None:
        claims.add(release)


def _steady_ms(store: Store) -> int:
    return round(store.surroundings.steady() * 1000)


def _extended(held: _Held, until: int, wall: int) -> bool:
    """Return False if the claim was lost or released. After an error the next beat tries again."""
    try:
        # One attempt: a retry would hold up the other leases, and the next beat comes soon.
        ours = held.store.extend(replace(held.claim, lease_until=wall), until)
    except Exception:  # any error of the store's client
        return True
    held.end = until
    return ours
