"""A whole SQS consumer around one decision: identify, parse, decide and commit, then answer SQS, record by record.

| what happened                         | ledger                    | batch result | destination                         |
|---------------------------------------|---------------------------|--------------|-------------------------------------|
| decided and committed                 | COMPLETE                  | success      | deleted                             |
| duplicate of a finished request       | untouched                 | success      | deleted                             |
| another consumer is on it             | untouched                 | failure      | queue, hidden until that lease ends |
| fenced: another took over             | the other's               | failure      | queue, visibility timeout           |
| unprocessable, or same id, other body | untouched, or released    | success      | dead-letter queue, with its reason  |
| ... and the dead-letter send fails    | untouched, or released    | failure      | queue, then the redrive policy      |
| any other exception                   | released (lease ended)    | failure      | queue, visibility timeout           |
| the process dies                      | IN_PROGRESS until deadline | none        | queue, visibility timeout           |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, assert_never

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import ClientError

from oneslot.runtime.consumer.batch import ConcurrentBatchProcessor
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.effects import INVALID_MESSAGE_ID, Effects, Result, Unprocessable, conflict
from oneslot.runtime.identity import identify, parse_body, payload_hash
from oneslot.runtime.powertools import Answer, M, Outcome, exactly_once
from oneslot.runtime.stores.checks import Store
from oneslot.runtime.stores.dynamodb import Busy, Conflict, Fenced
from oneslot.runtime.stores.expressions import error_code

LONGEST_OUTCOME = 128
"""Characters of an outcome that the delivery log shows: a line that is too long for CloudWatch would be missing."""


class NotFinished(Exception):
    """The record is reported as failed, so that SQS delivers it again: somebody else has it, or had it last."""


class LambdaContext(Protocol):
    """What the consumer asks of Lambda's context."""

    @property
    def aws_request_id(self) -> str:
        """The invocation's id."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the invocation."""


@dataclass(slots=True)
class Delivery:
    """One line of the delivery log: one attempt at one record. It holds no body and nothing personal."""

    sqs_message_id: str
    receive_count: int
    sent: int
    function_request_id: str
    message_id: str | None = None
    outcome: str = "failed"
    reason: str | None = None
    consumption_count: int | None = None
    claimed_by: str | None = None
    answer: str | None = None
    finished: int = 0
    attempt_ms: int = 0

    def answered(self, answer: Answer) -> None:
        """Note a request that has taken effect; `answer` is a digest, by which duplicates' answers can be compared."""
        self.outcome = (
            "duplicate" if answer.duplicate else str(answer.result.get("outcome", "complete"))[:LONGEST_OUTCOME]
        )
        self.consumption_count = answer.consumption_count
        self.claimed_by = answer.claimed_by
        self.answer = _digest(answer.result)


@dataclass(slots=True)
class Consumer(Generic[M]):
    """A queue's consumer.

    Attributes:
        parse: `(message_id, payload_hash, body)` → the message; raises `Unprocessable`.
        decide: the message → its `Effects`; raises `Unprocessable` for what can never succeed.
        log: takes each `Delivery` when its attempt is over.
        content_based: messages without an id are identified by the SHA-256 of their body.
        executor: where the records of a batch run side by side; None for one after the other.
    """

    ledger: Store
    queues: Queues
    parse: Callable[[str, str, Mapping[str, Any]], M]
    decide: Callable[[M], Effects]
    log: Callable[[Delivery], None]
    content_based: bool = False
    executor: Executor | None = None
    _deliver: Callable[[M, int], Outcome] = field(init=False)

    def __post_init__(self) -> None:
        self._deliver = exactly_once(self.ledger)(self.decide)

    def __call__(self, event: Mapping[str, Any], context: LambdaContext) -> Mapping[str, Any]:
        """Consume one SQS event; returns the partial batch response, the failed records in it.

        Raises:
            TypeError: if the event is not SQS's, before anything is read from it.
        """
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, list):
            raise TypeError("the event has no list 'Records'; invoke this function from an SQS event source mapping")
        deadline = self.ledger.surroundings.now_ms() + context.get_remaining_time_in_millis()
        processor = ConcurrentBatchProcessor(self._batch_key, self.executor, self._is_answered)

        def handle(record: SQSRecord) -> None:
            self._attempt(record, deadline, context.aws_request_id)

        with processor(records, handler=handle):
            processor.process()
        return processor.response()

    def _batch_key(self, record: Mapping[str, Any]) -> str:
        try:
            return self._identify(SQSRecord(dict(record)))[0]
        except Unprocessable:
            return str(record["messageId"])

    def _is_answered(self, record: Mapping[str, Any]) -> bool:
        return False

    def _identify(self, record: SQSRecord) -> tuple[str, Mapping[str, Any]]:
        body = parse_body(record.body)
        attributes = record.raw_event.get("messageAttributes", {})
        return identify(attributes, body, record.body, content_based=self.content_based), body

    def _attempt(self, record: SQSRecord, deadline: int, request_id: str) -> None:
        started = self.ledger.surroundings.now_ms()
        attributes = record.raw_event["attributes"]
        delivery = Delivery(
            sqs_message_id=record.message_id,
            receive_count=int(attributes["ApproximateReceiveCount"]),
            sent=int(attributes["SentTimestamp"]),
            function_request_id=request_id,
        )
        try:
            self._consume(record, deadline, delivery)
        except NotFinished:
            raise
        except BaseException as error:
            # The class and the service's code only: messages of exceptions may quote values.
            delivery.reason = delivery.reason or _name(error)
            raise
        finally:
            delivery.finished = self.ledger.surroundings.now_ms()
            delivery.attempt_ms += delivery.finished - started
            self.log(delivery)

    def _consume(self, record: SQSRecord, deadline: int, delivery: Delivery) -> None:
        try:
            outcome = self._decide(record, deadline, delivery)
        except Unprocessable as problem:
            delivery.reason = problem.reason
            if problem.reason == INVALID_MESSAGE_ID:
                delivery.message_id = None
            self.queues.quarantine(record, problem)
            delivery.outcome = "quarantined"
            return
        match outcome:
            case Answer():
                delivery.answered(outcome)
            case Busy(milliseconds):
                delivery.outcome = "busy"
                self.queues.defer(record, milliseconds)
                raise NotFinished
            case Fenced(claim):
                delivery.outcome = "fenced"
                delivery.claimed_by, delivery.consumption_count = claim.claimed_by, claim.consumption_count
                raise NotFinished
            case _:  # a record that falls through here would be deleted
                assert_never(outcome)

    def _decide(self, record: SQSRecord, deadline: int, delivery: Delivery) -> Answer | Busy | Fenced:
        message_id, body = self._identify(record)
        content = payload_hash(body)
        delivery.message_id = message_id  # from here on only the parser refuses it, and says so if the id is why
        message = self.parse(message_id, content, body)
        outcome = self._deliver(message, deadline)
        if isinstance(outcome, Conflict):
            raise conflict()
        return outcome


def _digest(result: Result) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


def _name(error: BaseException) -> str:
    return error_code(error) if isinstance(error, ClientError) else type(error).__name__
