"""A whole SQS consumer around one decision: parse, decide and commit, then answer SQS, record by record.

| what happened                         | ledger                    | batch result | destination                         |
|---------------------------------------|---------------------------|--------------|-------------------------------------|
| decided and committed                 | COMPLETE                  | success      | deleted                             |
| duplicate of a finished request       | untouched                 | success      | deleted                             |
| another consumer is on it             | untouched                 | failure      | queue, after its deferral           |
| fenced: another took over             | the other's               | failure      | queue, visibility timeout           |
| unprocessable, or same id, other body | untouched, or released    | success      | dead-letter queue, with its reason  |
| its outside effect may have happened  | released (lease ended)    | success      | dead-letter queue, `outcome_unknown` |
| ... and the dead-letter send fails    | untouched, or released    | failure      | queue, then the redrive policy      |
| too little time is left for it        | untouched                 | failure      | queue, visibility timeout           |
| any other exception                   | released (lease ended)    | failure      | queue, after its retry delay        |
| the process dies                      | IN_PROGRESS until deadline | none        | queue, visibility timeout           |
"""

import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, assert_never, cast

from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.group_commit import EarlyAnswer, GroupCommit
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.effects import Effects, Unprocessable, conflict
from oneslot.runtime.failures import name_of, own_text, place_of
from oneslot.runtime.protocol import Answer, Busy, Conflict, Fenced, M, Outcome, Store
from oneslot.runtime.record import FIELDS, Delivery, Identify, Parse, Record, print_line
from oneslot.runtime.sqs.queue import HeldBack
from oneslot.runtime.surroundings import Executor

T = TypeVar("T")


class NotFinished(Exception):
    """The record is reported as failed, so that SQS delivers it again: another consumer has it, or had it last."""


class NotEnoughTime(Exception):
    """Too little time is left before the deadline; the record was not begun."""


class LambdaContext(Protocol):
    """The part of Lambda's context that the consumer reads."""

    @property
    def aws_request_id(self) -> str:
        """The invocation's id."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the invocation."""


class Attempt(Protocol):
    """A way to make an attempt: `oneslot.runtime.attempt`, or the same through Powertools."""

    def __call__(self, store: Store, message: M, decide: Callable[[M], Effects], deadline: int) -> Outcome:
        """Claim until `deadline` (epoch ms), decide, commit."""


Handle = Callable[[Record[M]], None]
"""Makes an attempt at one record; raises if SQS must deliver it again."""


Process = Callable[
    [Sequence[Record[Any]], Handle[Any], Executor | None, Callable[[Record[Any]], bool]], Mapping[str, Any]
]
"""A way to process a batch: `process` below, or Powertools' batch processor."""


def process(
    records: Sequence[Record[M]],
    handle: Handle[M],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> Mapping[str, Any]:
    """Handle every record; return Lambda's partial batch response, the failed records in their order.

    A batch that fails as a whole is reported record by record and not raised: an exception would make Lambda slow the
    whole queue down.
    """

    def succeeds(record: Record[M]) -> bool:
        try:
            handle(record)
        except Exception:
            return False
        return True

    succeeded = run_side_by_side(records, succeeds, executor, is_answered)
    failures = []
    for record, success in zip(records, succeeded, strict=True):
        if not success:
            failures.append({"itemIdentifier": record.receipt.sqs_message_id})
    return {"batchItemFailures": failures}


def run_side_by_side(
    records: Sequence[Record[M]],
    run: Callable[[Record[M]], T],
    executor: Executor | None,
    is_answered: Callable[[Record[M]], bool],
) -> list[T]:
    """Run each record; return the results in the records' order.

    Records of one message, or of one message group, run in turn and in their order; the others on `executor`'s threads.
    Without an executor all run in the calling thread. So does a record for which `is_answered`: it has nothing to wait for.
    """
    lines: dict[str, list[int]] = {}
    for position, record in enumerate(records):
        lines.setdefault(record.group or record.message_id or record.receipt.sqs_message_id, []).append(position)
    results: dict[int, T] = {}

    def run_line(positions: Sequence[int]) -> None:
        for position in positions:
            results[position] = run(records[position])

    here, elsewhere = [], []
    for positions in lines.values():
        if executor is None or len(lines) == 1 or all(is_answered(records[position]) for position in positions):
            here.append(positions)
        else:
            # In its own copy of the context: threads are kept, and must not keep anything else.
            elsewhere.append(executor.submit(contextvars.copy_context().run, run_line, positions))
    for positions in here:
        run_line(positions)
    for future in elsewhere:
        future.result()
    return list(map(results.__getitem__, range(len(records))))


@dataclass(slots=True)
class Consumer(Generic[M]):
    """A queue's consumer.

    Attributes:
        parse: `(message_id, payload_hash, body)` → the message; raises `Unprocessable`.
        decide: the message → its `Effects`; raises `Unprocessable` for what can never succeed.
        log: takes each `Delivery` when its attempt is over.
        content_based: identify a message without an id by the SHA-256 of its body.
        identity: a record → its message's id, in place of the usual rules; `envelopes` has those of AWS's services.
        minimum_remaining_ms: begin no record with less time than this left; it fails with `NotEnoughTime`. 0 for any.
        is_private: a text → whether no log may show it. The producer chooses the digits of its trace.
        executor: runs the records of a batch side by side; None for one after the other.
        group: commits a batch's first deliveries together, before the others take their turn.
        attempt, process: the way through the protocol and through a batch; `powertools` has the same two.
    """

    ledger: Store
    queues: Queues
    parse: Parse[M]
    decide: Callable[[M], Effects]
    log: Callable[[Delivery], None] = print_line
    content_based: bool = False
    executor: Executor | None = None
    group: GroupCommit[M] | None = None
    attempt: Attempt = attempt
    process: Process = process
    identity: Identify | None = None
    minimum_remaining_ms: int = 0
    is_private: Callable[[str], bool] | None = None

    def __call__(self, event: Mapping[str, Any], context: LambdaContext) -> Mapping[str, Any]:
        """Consume one SQS event; return the partial batch response, which names the failed records.

        Raises:
            TypeError: if the event is not SQS's, before anything is read from it.
        """
        raw_records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(raw_records, list):
            raise TypeError("the event has no list 'Records'; invoke this function from an SQS event source mapping")
        if not all(isinstance(raw, Mapping) and raw.keys() >= FIELDS for raw in raw_records):
            raise TypeError("the event's records are not SQS's; invoke this function from an SQS event source mapping")
        records = [
            Record.parse(raw, self.parse, self.content_based, self.identity, self.is_private) for raw in raw_records
        ]
        early = self.group.commit(records) if self.group else {}
        deadline = self.ledger.surroundings.now_ms() + context.get_remaining_time_in_millis()

        def handle(record: Record[M]) -> None:
            self._attempt(record, deadline, context.aws_request_id, early.pop(record.receipt, None))

        return self.process(records, stopping_groups(handle), self.executor, lambda record: record.receipt in early)

    def _attempt(self, record: Record[M], deadline: int, request_id: str, early: EarlyAnswer | None) -> None:
        started = self.ledger.surroundings.now_ms()
        delivery = Delivery(
            sqs_message_id=record.sent_as,
            receive_count=record.receive_count,
            sent=record.sent,
            function_request_id=request_id,
            message_id=record.message_id,
            attempt_ms=early.milliseconds if early else 0,
            trace=None if record.trace and self.is_private and self.is_private(record.trace) else record.trace,
        )
        try:
            self._consume(record, deadline, delivery, early)
        except NotFinished:
            raise
        except BaseException as error:
            delivery.reason = delivery.reason or name_of(error)
            if not isinstance(error, NotEnoughTime):
                delivery.where, delivery.detail = place_of(error), own_text(error)
            if isinstance(error, Exception) and not isinstance(error, NotEnoughTime) and delivery.outcome != "busy":
                self._delay(record, error)
            raise
        finally:
            delivery.finished = self.ledger.surroundings.now_ms()
            delivery.attempt_ms += delivery.finished - started
            self.log(delivery)

    def _consume(self, record: Record[M], deadline: int, delivery: Delivery, early: EarlyAnswer | None) -> None:
        try:
            outcome = early.answer if early else self._decide(record, deadline)
        except Unprocessable as problem:
            delivery.reason = problem.reason
            self.queues.quarantine(record, problem)
            delivery.outcome = "quarantined"
            return
        match outcome:
            case Answer():
                delivery.answered(outcome)
            case Busy(milliseconds):
                delivery.outcome = "busy"
                self.queues.defer(record, milliseconds, deadline - self.ledger.surroundings.now_ms())
                raise NotFinished
            case Fenced(claim):
                delivery.outcome = "fenced"
                delivery.claimed_by, delivery.consumption_count = claim.claimed_by, claim.consumption_count
                raise NotFinished
            case _:  # a record that falls through here would be deleted
                assert_never(outcome)

    def _delay(self, record: Record[M], error: Exception) -> None:
        try:
            self.queues.delay(record)
        except Exception as failure:  # `error` is what the caller must see
            error.add_note(
                f"{type(failure).__name__} while the message was delayed: its visibility timeout ends as before"
            )

    def _decide(self, record: Record[M], deadline: int) -> Answer | Busy | Fenced:
        if record.problem is not None:
            raise record.problem
        if self.minimum_remaining_ms > 0 and deadline - self.ledger.surroundings.now_ms() < self.minimum_remaining_ms:
            raise NotEnoughTime
        outcome = self.attempt(self.ledger, cast("M", record.message), self.decide, deadline)
        if isinstance(outcome, Conflict):
            raise conflict()
        return outcome


def stopping_groups(handle: Handle[M]) -> Handle[M]:
    """Wrap `handle` for FIFO queues: the first failure stops its message group.

    The rest of the group raises `HeldBack`, untried, so that SQS delivers it again behind the failed record.
    """
    stopped: set[str] = set()

    def handle_in_order(record: Record[M]) -> None:
        if record.group in stopped:
            raise HeldBack("an earlier record of this message group failed")
        try:
            handle(record)
        except BaseException:
            if record.group is not None:
                stopped.add(record.group)
            raise

    return handle_in_order
