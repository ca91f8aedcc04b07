"""One attempt at one message: claim, decide, commit. And the claims that a worker's handler holds.

On Lambda a lease lasts until the invocation's deadline, which is near. A worker's handler may run for many minutes, and a
killed worker's message would wait as long. So a worker's leases are short, its heartbeat renews them while the handler runs,
and they are released with their message.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial

from oneslot.runtime.effects import Effects, own_result
from oneslot.runtime.protocol import (
    Answer,
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    M,
    Store,
    Taken,
)
from oneslot.runtime.surroundings import Backoff, Surroundings

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


def attempt(
    store: Store, message: M, decide: Callable[[M], Effects], deadline: int
) -> Answer | Busy | Conflict | Fenced:
    """Claim until `deadline` (epoch ms), decide, commit. Release the claim if anything is raised in between."""
    match take_claim(store, message.message_id, message.payload_hash, deadline, fenced=True):
        case Claim() as claim:
            return finish(store, claim, message, decide)
        case Duplicate() as known:
            return known.answer
        case Busy() | Conflict() as refusal:
            return refusal


def take_claim(
    store: Store, message_id: str, payload_hash: str, lease_until: int, *, fenced: bool
) -> Claim | Duplicate | Busy | Conflict:
    """Claim until `lease_until` (epoch ms). A worker renews the claim while its handler runs.

    A claim whose answer comes after the end of its lease is `Busy`, because another consumer may work on the message already.
    It needs no release.

    Args:
        fenced: a transaction ends the work, so a lease that ends early costs no more than the work. A worker's first lease
            is then short, and it releases the claim with its message. Otherwise the first lease is as long as asked, and
            renewed until the message's limit.
    """
    claims, began = current.get(), store.surroundings.now_ms()
    first = lease_until
    if claims is not None and fenced:
        # Valkey's ledger refuses a lease that one slow call could outlast; the other stores name no shortest one.
        hidden = claims.hidden_ms
        first = min(lease_until, began + max(hidden, getattr(store, "shortest_lease_ms", hidden)))
    outcome = store.claim(message_id, payload_hash, first)
    if not isinstance(outcome, Claim):
        return outcome
    if began <= first < store.surroundings.now_ms():
        return Busy(0)
    if claims is None:
        return outcome
    if fenced:  # the next worker can begin before this handler has ended: the fence refuses its commit
        claims.add(partial(store.release, outcome))
    return claims.hold(store, outcome, lease_until if fenced else None)


def finish(store: Store, claim: Claim, message: M, decide: Callable[[M], Effects]) -> Answer | Fenced:
    """Decide and commit under `claim`, or release it and raise. Both ways, this one and Powertools', end here."""
    try:
        return _decide_and_commit(store, claim, message, decide)
    except BaseException as error:  # SystemExit too: the process may live on
        release_after(error, store, claim)
        raise


def _decide_and_commit(store: Store, claim: Claim, message: M, decide: Callable[[M], Effects]) -> Answer | Fenced:
    effects, duplicate, backoff = decide(message), False, None
    while True:
        match store.commit(claim, effects):
            case Committed(result):
                return Answer(result, duplicate, claim.consumption_count, claim.claimed_by)
            case Duplicate() as known:
                return known.answer
            case Fenced() as fenced:
                return fenced
            case Exists(item):
                answer = effects.once.answer if effects.once else own_result
                effects, duplicate = Effects(effects.result if answer is own_result else answer(item)), True
            case Taken(instead):
                # The first `otherwise` answers at once. One that is refused in its turn waits as a decision does.
                waits = instead is None or backoff is not None
                backoff = backoff or Backoff(store.surroundings, claim.lease_until)
                if waits and not backoff.pause():
                    raise TimeoutError("the lease is nearly over; each decision relied on something that had changed")
                effects = decide(message) if instead is None else instead()


def release_after(error: BaseException, store: Store, claim: Claim) -> None:
    """Release a claim whose work raised `error`, which is what the caller must see, whatever the release raises."""
    try:
        store.release(claim)
    except Exception as failure:
        error.add_note(f"{type(failure).__name__} while the claim was released: its lease lasts to its end")
