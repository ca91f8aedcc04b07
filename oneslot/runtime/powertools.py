"""The protocol through Powertools for AWS Lambda: its idempotency around a decision, its batch processor around a batch.

Powertools keeps its interface and its order of calls; the transaction is the truth. The commit happens inside the wrapped
function rather than in `save_success`, so that a decision whose slot was taken is made again under the same claim.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
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

from oneslot.runtime.attempt import finish, take_claim
from oneslot.runtime.consumer.consumer import run_side_by_side
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import Answer, Busy, Claim, Conflict, Duplicate, Fenced, M, Message, Outcome, Store
from oneslot.runtime.record import Receipt, Record
from oneslot.runtime.surroundings import Executor
from oneslot.runtime.values import to_json


class NoClaim(RuntimeError):
    """The decision was reached without a claim; nothing was written."""


class LedgerPersistence(BasePersistenceLayer):
    """Powertools' four persistence methods over the ledger, for one attempt at one message until `deadline` (epoch ms).

    Attributes:
        claimed: the ledger's answer to `save_inprogress`; None before it.
    """

    def __init__(self, store: Store, message: Message, deadline: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Powertools leaves it without annotations
        self.store = store
        self.message = message
        self.deadline = deadline
        self.claimed: Claim | Duplicate | Busy | Conflict | None = None

    def save_inprogress(self, data: dict[str, Any], remaining_time_in_millis: int | None = None) -> None:
        """Claim, or raise the refusal as Powertools names it. A missing key fails closed: it never runs unprotected."""
        message_id, payload_hash = self.message.message_id, self.message.payload_hash
        if not message_id or not payload_hash:
            raise IdempotencyKeyError("the message has no message_id or no payload_hash")
        self.claimed = take_claim(self.store, message_id, payload_hash, self.deadline, fenced=True)
        match self.claimed:
            case Conflict():
                raise IdempotencyValidationError("the ledger has this message id with another content")
            case Duplicate() | Busy():
                raise IdempotencyItemAlreadyExistsError(old_data_record=_record(message_id, self.claimed))

    def save_success(self, data: dict[str, Any], result: dict[str, Any]) -> None:
        """Do nothing: the commit inside the function wrote the result with its effects."""

    def delete_record(self, data: dict[str, Any], exception: Exception) -> None:
        """Do nothing: `finish` has released the claim. The row stays, so that the message is not forgotten."""

    def get_record(self, data: dict[str, Any]) -> DataRecord:
        """Never called, because every refusal brings its row with it."""
        raise IdempotencyItemNotFoundError

    def _get_record(self, idempotency_key: str) -> DataRecord:
        raise IdempotencyItemNotFoundError

    # The public methods above never reach the three below; Powertools' base class asks for them.
    def _put_record(self, data_record: DataRecord) -> None: ...

    def _update_record(self, data_record: DataRecord) -> None: ...

    def _delete_record(self, data_record: DataRecord) -> None: ...


def attempt(store: Store, message: M, decide: Callable[[M], Effects], deadline: int) -> Outcome:
    """Make one attempt as `oneslot.runtime.attempt` does, through Powertools' idempotency.

    Raises:
        NoClaim: if Powertools called the decision without a claim, as with POWERTOOLS_IDEMPOTENCY_DISABLED.
    """
    layer = LedgerPersistence(store, message, deadline)
    finished: Answer | Fenced | None = None

    def perform(*, key: dict[str, Any]) -> None:  # noqa: ARG001 - the key is for Powertools
        nonlocal finished
        if not isinstance(layer.claimed, Claim):  # Powertools can be switched off by environment; we cannot
            raise NoClaim("refusing to act without a claim; is POWERTOOLS_IDEMPOTENCY_DISABLED set?")
        finished = finish(store, layer.claimed, message, decide)

    idempotent: Callable[..., Any] = idempotent_function(
        perform, data_keyword_argument="key", persistence_store=layer, config=IdempotencyConfig()
    )
    try:
        idempotent(key={"message_id": message.message_id})
    except (IdempotencyAlreadyInProgressError, IdempotencyValidationError):
        if isinstance(layer.claimed, Busy | Conflict):
            return layer.claimed
        raise  # the decision's own: what it calls may be guarded by Powertools, too
    except IdempotencyPersistenceLayerError as error:
        raise error.__cause__ or error from None  # the cause says more than Powertools' wrapping
    if finished is not None:
        return finished
    if isinstance(layer.claimed, Duplicate):
        return layer.claimed.answer
    raise NoClaim("no answer and no claim")


def exactly_once(store: Store) -> Callable[[Callable[[M], Effects]], Callable[[M, int], Outcome]]:
    """Decorate a decision `message → Effects`; call the result with the message and the deadline (epoch ms).

    The decision may read, and must not write: it is called again if something it relied on has changed. An exception that
    it raises (`SystemExit` as well) releases the claim and goes to the caller; the message can then be delivered at once.
    """

    def decorate(decide: Callable[[M], Effects]) -> Callable[[M, int], Outcome]:
        @functools.wraps(decide)
        def deliver(message: M, deadline: int) -> Outcome:
            return attempt(store, message, decide, deadline)

        return deliver

    return decorate


def _record(message_id: str, refusal: Duplicate | Busy) -> DataRecord:
    # No expiry_timestamp: Powertools would take a row past it for absent, and time to live is for cleaning only.
    if isinstance(refusal, Duplicate):
        return DataRecord(message_id, STATUS_CONSTANTS["COMPLETED"], response_data=to_json(refusal.result))
    return DataRecord(message_id, STATUS_CONSTANTS["INPROGRESS"])


class LedgerBatchProcessor(BatchProcessor):
    """Powertools' batch processor, with the records of a batch side by side as `run_side_by_side` runs them."""

    def __init__(
        self, records: Sequence[Record[Any]], executor: Executor | None, is_answered: Callable[[Record[Any]], bool]
    ) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)
        self._records = records
        self._executor = executor
        self._is_answered = is_answered

    def process(self) -> list[tuple[Any, ...]]:
        """Process all records; the results are in the records' order."""
        return run_side_by_side(
            self._records, lambda record: self._process_record(dict(record.raw)), self._executor, self._is_answered
        )


def process(
    records: Sequence[Record[M]],
    handle: Callable[[Record[M]], None],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> Mapping[str, Any]:
    """Handle every record as `oneslot.runtime.consumer.consumer.process` does, through Powertools' batch processor."""
    parsed = {record.receipt: record for record in records}

    def handler(record: SQSRecord) -> None:
        handle(parsed[Receipt(record.message_id, record.receipt_handle)])

    processor = LedgerBatchProcessor(records, executor, is_answered)
    with processor([dict(record.raw) for record in records], handler=handler):
        processor.process()
    return processor.response()
