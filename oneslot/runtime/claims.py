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

WORTH_MS = 100
"""A shorter extension is left to a later beat: it may be the rounding of two clocks."""


@dataclass(slots=True, eq=False)
class _Held:
    """A lease to renew. `began` is the host's wall clock (epoch ms), `begun` the steady clock (s), the others epoch ms."""

    store: Store
    claim: Claim
    until: int
    end: int
    began: int
    begun: float


class Claims:
    """The claims of one message in work. Safe to use from many threads.

    A lease ends when SQS would deliver the message again, so a dead worker's message and its claims are free together.

    Args:
        hidden_until: when SQS delivers the message again, in seconds of the steady clock.
        deadline: the message's hard limit, likewise; no renewed lease lasts longer.
    """

    def __init__(self, surroundings: Surroundings, hidden_until: Callable[[], float], deadline: float) -> None:
        self._surroundings = surroundings
        self._hidden_until = hidden_until
        self._deadline = deadline
        self._lock = surroundings.threads.lock()
        self._held: list[_Held] = []
        self._releases: list[Release] = []
        self._released = False

    @property
    def hidden_ms(self) -> int:
        """The time for which SQS still hides the message."""
        return int((self._hidden_until() - self._surroundings.steady()) * 1000)

    def hold(self, store: Store, claim: Claim, until: int | None) -> Claim:
        """Renew a claim from now on; return it as its holder sees it.

        Args:
            until: when its work must end (epoch ms); None for the hard limit.
        """
        now, steady = self._surroundings.now_ms(), self._surroundings.steady()
        if until is None:
            until = max(claim.lease_until, now + int((self._deadline - steady) * 1000))
        with self._lock:
            self._held.append(_Held(store, claim, until, claim.lease_until, now, steady))
        return replace(claim, lease_until=until)

    def renew(self) -> None:
        """Let each lease last as long as SQS hides the message. One that was lost or has ended is extended no more."""
        with self._lock:
            every = list(self._held)
        for held in every:
            wall, passed = self._surroundings.now_ms(), self._surroundings.steady() - held.begun
            now = held.began + int(passed * 1000)
            # By the later of both clocks, so that the lease is long enough for hosts with either time.
            until = min(held.until, max(now, wall) + self.hidden_ms)
            if now >= held.until or (until >= held.end + WORTH_MS and not _extended(held, until, wall)):
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


def _extended(held: _Held, until: int, wall: int) -> bool:
    """Return False if the claim was lost or released. After an error the next beat tries again."""
    try:
        # One attempt: a retry would hold up the other leases, and the next beat comes soon.
        ours = held.store.extend(replace(held.claim, lease_until=wall), until)
    except Exception:  # any error of the store's client
        return True
    held.end = until
    return ours
