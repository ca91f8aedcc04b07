"""`@exactly_once(ledger)`: Powertools' idempotency around a pure decision, with our ledger as its persistence layer.

Powertools keeps its interface and its order of calls; the transaction is the truth. It commits inside the wrapped function
and not in `save_success`, so that a decision whose slot was taken is made again under the same claim.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import STATUS_CONSTANTS, DataRecord

from oneslot.runtime.effects import Effects, Result
from oneslot.runtime.stores.checks import Store
from oneslot.runtime.stores.dynamodb import Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Patience, Taken


class Message(Protocol):
    """What the ledger needs to know of a message; the decision may know more."""

    @property
    def message_id(self) -> str:
        """The id that the message itself carries."""

    @property
    def payload_hash(self) -> str:
        """A digest of the content: the same id with another digest is a conflict."""


M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Answer:
    """The request has taken effect: in this delivery, or (`duplicate`) in an earlier one."""

    result: Result
    duplicate: bool
    consumption_count: int
    claimed_by: str


Outcome = Answer | Busy | Conflict | Fenced


class NoClaim(RuntimeError):
    """The decision was reached without a claim; nothing was written."""


@dataclass(slots=True)
class _Attempt:
    """What this delivery has learned so far; one for each call of the wrapped function."""

    outcome: Claim | Duplicate | Busy | Conflict | Fenced | None = None
    duplicate: bool = False


_attempt: ContextVar[_Attempt | None] = ContextVar("exactly_once_attempt", default=None)


class LedgerPersistence(BasePersistenceLayer):
    """Powertools' four persistence verbs, over the ledger. One layer for one function."""

    def __init__(self, ledger: Store) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Powertools leaves it without annotations
        self._ledger = ledger

    def save_inprogress(self, data: dict[str, Any], remaining_time_in_millis: int | None = None) -> None:
        """Claim, or raise what Powertools understands. A missing key fails closed: it never runs unprotected."""
        if not data.get("message_id") or not data.get("payload_hash"):
            raise IdempotencyKeyError("the message has no message_id or no payload_hash")
        lease_until = data["lease_until"]
        if remaining_time_in_millis is not None:
            lease_until = min(lease_until, self._ledger.surroundings.now_ms() + remaining_time_in_millis)
        outcome = self._ledger.claim(data["message_id"], data["payload_hash"], lease_until)
        _current_attempt().outcome = outcome
        match outcome:
            case Conflict():
                raise IdempotencyValidationError("the ledger has this message id with another content")
            case Duplicate() | Busy():
                raise IdempotencyItemAlreadyExistsError(old_data_record=_record(data["message_id"], outcome))

    def save_success(self, data: dict[str, Any], result: dict[str, Any]) -> None:
        """Nothing is left to save: the commit inside the function wrote the result with its effects."""

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """Release the claim. The row stays: deleting it would forget that the message was ever seen."""
        outcome = _current_attempt().outcome
        if isinstance(outcome, Claim):
            self._ledger.release(outcome)

    def get_record(self, data: dict[str, Any]) -> DataRecord:
        """Never needed, because every refusal brings its row with it."""
        raise IdempotencyItemNotFoundError

    def _get_record(self, idempotency_key: str) -> DataRecord:
        raise IdempotencyItemNotFoundError

    # The public methods above never reach the three below; Powertools' base class asks for them.
    def _put_record(self, data_record: DataRecord) -> None: ...

    def _update_record(self, data_record: DataRecord) -> None: ...

    def _delete_record(self, data_record: DataRecord) -> None: ...


def exactly_once(ledger: Store) -> Callable[[Callable[[M], Effects]], Callable[[M, int], Outcome]]:
    """Decorate a decision `message → Effects`; the result is called with the message and the deadline (epoch ms).

    The decision may read, and must not write: it is called again if what it relied on has changed. An exception that it
    raises (`SystemExit` as well) releases the claim and goes to the caller; the message can then be taken up at once.
    """

    def decorate(decide: Callable[[M], Effects]) -> Callable[[M, int], Outcome]:
        def perform(*, key: dict[str, Any], message: M) -> Result | None:  # noqa: ARG001 - the key is for Powertools
            attempt = _current_attempt()
            if not isinstance(attempt.outcome, Claim):  # Powertools can be switched off by environment; we cannot
                raise NoClaim("refusing to act without a claim; is POWERTOOLS_IDEMPOTENCY_DISABLED set?")
            claim = attempt.outcome
            try:
                return _decide_and_commit(ledger, attempt, claim, lambda: decide(message))
            except Exception:
                raise  # Powertools asks to delete the record
            except BaseException as error:  # it does not, and after `sys.exit()` the process may live on
                try:
                    ledger.release(claim)
                finally:
                    raise error

        idempotent: Callable[..., Result | None] = idempotent_function(
            perform,
            data_keyword_argument="key",
            persistence_store=LedgerPersistence(ledger),
            config=IdempotencyConfig(),
        )

        @functools.wraps(decide)
        def deliver(message: M, deadline: int) -> Outcome:
            attempt = _Attempt()
            token = _attempt.set(attempt)
            key = {"message_id": message.message_id, "payload_hash": message.payload_hash, "lease_until": deadline}
            try:
                result = cast("Result", idempotent(key=key, message=message))
            except (IdempotencyAlreadyInProgressError, IdempotencyValidationError):
                if isinstance(attempt.outcome, Busy | Conflict):
                    return attempt.outcome
                raise  # the decision's own: what it asks elsewhere may be guarded by Powertools, too
            except IdempotencyPersistenceLayerError as error:
                raise error.__cause__ or error from None  # the cause says more than Powertools' wrapping
            finally:
                _attempt.reset(token)
            match attempt.outcome:
                case Claim(_, claimed_by, count, _):
                    return Answer(result, attempt.duplicate, count, claimed_by)
                case Duplicate(stored, count, claimed_by):
                    return Answer(stored, True, count, claimed_by)
                case Fenced() as fenced:
                    return fenced
            raise NoClaim("no answer and no claim")

        return deliver

    return decorate


def _decide_and_commit(ledger: Store, attempt: _Attempt, claim: Claim, decide: Callable[[], Effects]) -> Result | None:
    effects = decide()
    patience = Patience(ledger.surroundings, claim.lease_until)
    while True:
        match ledger.commit(claim, effects):
            case Committed(result):
                return result
            case Duplicate(result) as duplicate:
                attempt.outcome = duplicate
                return result
            case Fenced() as fenced:
                attempt.outcome = fenced
                return None
            case Exists(item):
                attempt.duplicate = True
                effects = Effects(result=effects.once.answer(item) if effects.once else {})
            case Taken():
                if not patience.pause():
                    raise TimeoutError("the lease was nearly over, and what was chosen was taken again and again")
                effects = decide()


def _current_attempt() -> _Attempt:
    attempt = _attempt.get()
    if attempt is None:
        raise NoClaim("this persistence layer serves only functions decorated with @exactly_once")
    return attempt


def _record(message_id: str, outcome: Duplicate | Busy) -> DataRecord:
    # No expiry_timestamp: Powertools would take a row past it for absent, and time to live is for cleaning only.
    if isinstance(outcome, Duplicate):
        return DataRecord(message_id, STATUS_CONSTANTS["COMPLETED"], response_data=json.dumps(outcome.result))
    return DataRecord(message_id, STATUS_CONSTANTS["INPROGRESS"])
