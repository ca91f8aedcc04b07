"""Short leases that are renewed: a dead consumer's message is free again in seconds, however long the work may take.

A plain ledger's lease lasts to the attempt's deadline, so a consumer that dies early blocks its message until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Store, Taken

BEATS_PER_LEASE = 3
"""Two extensions may fail before a lease ends."""


@dataclass(slots=True)
class _Held:
    """A renewed lease. `began` is the host's wall clock, `begun` the steady clock, both in ms."""

    claim: Claim
    deadline: int
    end: int
    began: int
    begun: int


class RenewingLedger:
    """A `Store` around another one. It claims for `lease_seconds`, and extends the lease while this process lives.

    A lease never outlasts the `lease_until` that the claim asked for: work that hangs then loses its message. Use it as a
    context manager; its own thread extends the leases. A lost lease is not extended, and its commit is fenced.

    Raises:
        ValueError: for a `lease_seconds` under one millisecond.
    """

    def __init__(self, ledger: Store, *, lease_seconds: float) -> None:
        self._ledger = ledger
        self._lease_ms = int(lease_seconds * 1000)
        if self._lease_ms < 1:
            raise ValueError(
                f"lease_seconds of {lease_seconds} is too short; make it several times as long as a call takes"
            )
        self.surroundings = ledger.surroundings
        self._held: dict[str, _Held] = {}  # by `claimed_by`
        self._lock = self.surroundings.threads.lock()
        self._ended = self.surroundings.threads.event()

    def __enter__(self) -> Self:
        self._thread = self.surroundings.threads.start(self._beat_until_ended, "leases")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim for a short lease, which is renewed until `lease_until` (epoch ms) at the latest.

        Raises:
            RuntimeError: after the `with` block, when no thread extends leases.
        """
        if self._ended.is_set():
            raise RuntimeError("this RenewingLedger has ended and extends no lease; claim within its `with` block")
        began, begun = self.surroundings.now_ms(), self._steady_ms()
        first = min(lease_until, began + self._lease_ms)
        outcome = self._ledger.claim(message_id, payload_hash, first)
        if not isinstance(outcome, Claim):
            return outcome
        with self._lock:
            self._held[outcome.claimed_by] = _Held(outcome, lease_until, outcome.lease_until, began, begun)
        return replace(outcome, lease_until=lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Commit; keep renewing while the answer leaves work to do."""
        outcome = self._ledger.commit(claim, effects)
        if not isinstance(outcome, Taken | Exists):
            self._forget(claim)
        return outcome

    def release(self, claim: Claim) -> bool:
        """End the lease now."""
        self._forget(claim)
        return self._ledger.release(claim)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` at least; stop renewing it."""
        self._forget(claim)
        return self._ledger.extend(claim, lease_until)

    def beat(self) -> None:
        """Extend every lease that will end soon. The thread calls it; without the thread, call it yourself."""
        wall, steady = self.surroundings.now_ms(), self._steady_ms()
        with self._lock:
            every = list(self._held.values())
        for held in every:
            now = held.began + steady - held.begun
            # By the later of both clocks, so that the lease is long enough for hosts with either time.
            latest = max(now, wall)
            until = min(held.deadline, latest + self._lease_ms)
            due = until > held.end and held.end - latest <= self._lease_ms - self._lease_ms // BEATS_PER_LEASE
            if now >= held.deadline or (due and not self._extended(held, until)):
                self._forget(held.claim)

    def _extended(self, held: _Held, until: int) -> bool:
        """Return False if the claim was lost. After an error the next beat tries again."""
        # Retries, which follow the wall clock, must not outlast the lease that they extend.
        retry_until = min(until, self.surroundings.now_ms() + self._lease_ms)
        try:
            ours = self._ledger.extend(replace(held.claim, lease_until=retry_until), until)
        except Exception:  # any error of the store's client
            return True
        held.end = until
        return ours

    def _steady_ms(self) -> int:
        return round(self.surroundings.steady() * 1000)

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(claim.claimed_by, None)

    def _beat_until_ended(self) -> None:
        while not self._ended.wait(self._lease_ms / 1000 / BEATS_PER_LEASE):
            self.beat()
