"""Group commit: the first deliveries of a batch in one transaction, a fast path in front of the protocol.

    look (one read) ─────────────────┐
         │     decide (shared reads) ┴──▶ commit (one transaction) ──▶ COMPLETE
         │ known row │ not now                 │ an item was refused
         ▼           ▼                         ▼
    a duplicate's answer; or the ordinary way: claim, decide, commit alone (attempt.py)

The group claims nothing. Its transaction writes a row as COMPLETE together with the effects, on condition that no row exists:
the commit is the first claim, so `consumption_count` is 1. Nothing is written before it. After any failure the ordinary way
starts from the beginning, and a crash leaves no trace.

Look and decide may run in either order. On threads they run side by side: new messages save a round trip, known ones cost a
read in vain. Otherwise the look comes first, and only new messages are decided. The transaction's conditions refuse whatever
neither saw in time.

A transaction is all or nothing. When it is cancelled, the reasons say which items were refused: their messages leave the
group, and the others are sent again in a new transaction.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from oneslot.runtime.effects import MAXIMUM_WRITES, Effects, InvalidEffects, Item
from oneslot.runtime.failures import cancellation_reasons, name_of
from oneslot.runtime.protocol import COMPLETE, Answer, M, Message
from oneslot.runtime.record import Receipt, Record
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Executor
from oneslot.runtime.values import from_attributes, from_json

logger = logging.getLogger(__name__)

MAXIMUM_ITEMS = MAXIMUM_WRITES + 1
"""TransactWriteItems takes 100 items: 33 messages that write two besides their row, or 50 that write one."""

FEWEST_MESSAGES = 2
"""A single message gains nothing: the look costs one call, as a claim does."""


@dataclass(frozen=True, slots=True)
class Decided:
    """An unclaimed message and its decided effects."""

    message_id: str
    payload_hash: str
    effects: Effects


@dataclass(frozen=True, slots=True)
class _Member:
    """A message in a transaction: the items that it writes, its row's first, what names each of them, and its answer."""

    decided: Decided
    items: Sequence[Mapping[str, Any]]
    targets: frozenset[tuple[Any, ...]]
    answer: Answer


@dataclass(frozen=True, slots=True)
class EarlyAnswer:
    """The answer of a record that the group committed or found complete, and the group's duration."""

    answer: Answer
    milliseconds: int


@dataclass
class GroupCommit(Generic[M]):
    """Commits a batch's first deliveries together and answers by receipt; the other records take their turn.

    The group takes records that SQS delivers for the first time on a standard queue, if there are at least two. On a FIFO
    queue a failed record must stop those behind it.

    Attributes:
        decide_together: several messages → `Effects` for each, or None to decide it alone. Reads may be shared, and run
            on the executor, the second argument.
        executor: looks for known rows while the calling thread decides; None: the look comes first.
    """

    ledger: DynamoDBLedger
    decide_together: Callable[[Sequence[M], Executor | None], Sequence[Effects | None]]
    executor: Executor | None = None
    # True if the look knew at most half of the last group: a file that is sent again then causes no reads in vain.
    _expects_new: bool = field(default=True, init=False)

    def commit(self, records: Sequence[Record[M]]) -> dict[Receipt, EarlyAnswer]:
        """Commit as many as can be. A failure is logged as a warning, and each record then takes its turn."""
        try:
            return self._commit(records)
        except Exception as error:
            # Never worse than without the group.
            logger.warning("these records are committed one by one: %s", name_of(error))
            return {}

    def _commit(self, records: Sequence[Record[M]]) -> dict[Receipt, EarlyAnswer]:
        started = self.ledger.surroundings.now_ms()
        first: dict[str, tuple[Receipt, M]] = {}
        for record in records:
            if record.message is not None and record.group is None and record.receive_count == 1:
                first.setdefault(record.message.message_id, (record.receipt, record.message))
        if len(first) < FEWEST_MESSAGES:
            return {}
        rows, decided = self._look_and_decide([message for _, message in first.values()])
        self._expects_new = 2 * len(rows) <= len(first)
        answers = {message_id: finished(row, first[message_id][1]) for message_id, row in rows.items()}
        answers |= self.commit_first(decided)
        took = self.ledger.surroundings.now_ms() - started
        return {
            first[message_id][0]: EarlyAnswer(answer, took)
            for message_id, answer in answers.items()
            if answer is not None
        }

    def _look_and_decide(self, messages: Sequence[M]) -> tuple[dict[str, Item], list[Decided]]:
        """Return the rows that exist, by message id, and what is decided for the messages that have none."""
        ids = [message.message_id for message in messages]
        if self.executor and self._expects_new:
            looking = self.executor.submit(self.known, ids)
            effects = self.decide_together(messages, self.executor)
            rows = looking.result()
        else:
            rows = self.known(ids)
            messages = [message for message in messages if message.message_id not in rows]
            effects = self.decide_together(messages, self.executor)
        decided = [
            Decided(message.message_id, message.payload_hash, effect)
            for message, effect in zip(messages, effects, strict=True)
            if effect is not None and message.message_id not in rows
        ]
        return rows, decided

    def known(self, message_ids: Sequence[str]) -> dict[str, Item]:
        """Return the existing rows by message id; one read for up to 100.

        The read is not consistent and unprocessed keys are not read again: the transaction finds what is missed here. A
        COMPLETE row can be trusted, because COMPLETE never changes.
        """
        keys = [{"message_id": {"S": message_id}} for message_id in message_ids[:MAXIMUM_ITEMS]]
        answer = self.ledger.client.batch_get_item(RequestItems={self.ledger.table_name: {"Keys": keys}})
        rows = [from_attributes(item) for item in answer["Responses"].get(self.ledger.table_name, ())]
        return {row["message_id"]: row for row in rows}

    def commit_first(self, group: Sequence[Decided]) -> dict[str, Answer]:
        """Commit as many as possible; return the answers by message id. A message without one was not committed here.

        A message that writes an item of an earlier message is left out: a transaction writes each item once.
        """
        answers: dict[str, Answer] = {}
        for transaction in _transactions(self._members(group)):
            members = transaction
            while members:
                refused = self._refusals(members)
                if not refused:
                    answers.update({one.decided.message_id: one.answer for one in members})
                    break
                answers.update({message_id: answer for message_id, answer in refused.items() if answer})
                members = [one for one in members if one.decided.message_id not in refused]
        return answers

    def _refusals(self, members: Sequence[_Member]) -> dict[str, Answer | None]:
        """Try to commit all; return the refused message ids, or nothing if the commit succeeded.

        If any is refused, nothing was written. An id maps to an answer where a complete row stood in the way.
        """
        items = [(one, item) for one in members for item in one.items]
        try:
            self.ledger.client.transact_write_items(
                TransactItems=[item for _, item in items], ClientRequestToken=self.ledger.surroundings.new_id()
            )
        except Exception as error:
            reasons = cancellation_reasons(error)
            if len(reasons) != len(items):  # only a cancellation has reasons
                raise
            refused: dict[str, Answer | None] = {}
            for (one, item), reason in zip(items, reasons, strict=True):
                if reason["Code"] != "None":
                    of_row = item is one.items[0] and "Item" in reason
                    answer = finished(from_attributes(reason["Item"]), one.decided, one.answer) if of_row else None
                    refused.setdefault(one.decided.message_id, answer)
            if not refused:
                raise
            return refused
        return {}

    def _members(self, group: Sequence[Decided]) -> Iterator[_Member]:
        now = self.ledger.surroundings.now_ms()
        table = self.ledger.table_name
        for decided in group:
            try:
                completed, transaction = self.ledger.completed(decided.message_id, decided.effects, now)
            except InvalidEffects:
                continue  # the ordinary way raises it
            claimed_by = self.ledger.surroundings.new_id()
            row = {
                "message_id": {"S": decided.message_id},
                **completed,
                "consumption_count": {"N": "1"},
                "claimed_by": {"S": claimed_by},
                "payload_hash": {"S": decided.payload_hash},
            }
            put = {
                "TableName": table,
                "Item": row,
                "ConditionExpression": "attribute_not_exists(message_id)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
            yield _Member(
                decided,
                [{"Put": put}, *transaction.items],
                frozenset(((table, decided.message_id), *transaction.targets)),
                Answer(transaction.result, False, 1, claimed_by),
            )


def finished(row: Item, message: Message, ours: Answer | None = None) -> Answer | None:
    """Return the answer in a row that is complete for this content; None if the ordinary way must judge the row.

    `ours` is the answer of the row that we tried to write: if its owner is the one found, our own commit succeeded, and its
    answer was lost.
    """
    if row["status"] != COMPLETE or row["payload_hash"] != message.payload_hash:
        return None
    duplicate = ours is None or row["claimed_by"] != ours.claimed_by
    return Answer(from_json(row["result"]), duplicate, row["consumption_count"], row["claimed_by"])


def _transactions(members: Iterable[_Member]) -> Iterator[list[_Member]]:
    """Split the members into the fewest transactions, without those that write an item of an earlier member.

    The last one may be empty.
    """
    run: list[_Member] = []
    written: set[tuple[Any, ...]] = set()
    items = 0
    for member in members:
        if member.targets & written:
            continue
        written |= member.targets
        if items + len(member.targets) > MAXIMUM_ITEMS:
            yield run
            run, items = [], 0
        run.append(member)
        items += len(member.targets)
    yield run
