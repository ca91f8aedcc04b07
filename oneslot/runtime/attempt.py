"""One attempt at one message: claim, decide, commit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oneslot.runtime.backoff import Backoff
from oneslot.runtime.claims import current
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
        _release_after(error, store, claim)
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


def _release_after(error: BaseException, store: Store, claim: Claim) -> None:
    try:
        store.release(claim)
    except Exception as failure:  # `error` is what the caller must see
        error.add_note(f"{type(failure).__name__} while the claim was released: its lease lasts to its end")
