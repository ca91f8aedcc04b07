"""Batches that AWS performs without some of their entries: the answer says so, and a handler must read it.

See https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html, and
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.services.account import Answer, Parameters

Entry = tuple[str, Any]
"""An entry, with its table; "" for none."""
Refuse = Callable[[Answer, Sequence[Entry], Collection[int]], Answer]
"""Adds the refused entries, at these positions of all entries, to the answer for the others."""

CODE, MESSAGE = "InternalError", "injected"

LAST, FIRST, EVERY = 0, 1, 2
"""Which entries are refused."""
NAMES = {LAST: "the last entry", FIRST: "the first entry", EVERY: "every entry"}


@dataclass(frozen=True)
class BatchCall:
    """Where a batch has its entries, and how its answer names refused ones.

    `unprocessed`: where the answer of a batch by table has what it refuses, in the form of the call.
    """

    entries: str
    refuse: Refuse = lambda answer, entries, refused: answer
    unprocessed: str = ""

    def refusals(self, parameters: Parameters) -> tuple[int, ...]:
        """Return which entries a successful answer may refuse."""
        return (LAST, FIRST, EVERY) if len(self._entries(parameters)) > 1 else (LAST,)

    def perform(self, parameters: Parameters, refused: int, perform: Callable[[Parameters], Answer]) -> Answer:
        """Perform a call without what is refused, and return its answer."""
        entries = self._entries(parameters)
        positions = {LAST: [len(entries) - 1], FIRST: [0], EVERY: range(len(entries))}[refused]
        rest = self._with(parameters, [one for at, one in enumerate(entries) if at not in positions])
        answer = perform(rest) if rest[self.entries] else {}
        if self.unprocessed:
            asked = self._with(parameters, [entries[at] for at in positions])[self.entries]
            found = {table: [] for table in parameters[self.entries]} | answer.get("Responses", {})
            is_read = self.unprocessed == "UnprocessedKeys"
            return {**answer, **({"Responses": found} if is_read else {}), self.unprocessed: asked}
        return self.refuse(answer, entries, positions)

    def _with(self, parameters: Parameters, entries: Sequence[Entry]) -> Parameters:
        """Return a call with these of its entries alone."""
        asked = parameters[self.entries]
        if not self.unprocessed:
            return {**parameters, self.entries: [one for _, one in entries]}
        found = {table: [one for of, one in entries if of == table] for table, _ in entries}
        own = {of: some if isinstance(asked[of], list) else {**asked[of], "Keys": some} for of, some in found.items()}
        return {**parameters, self.entries: own}

    def _entries(self, parameters: Parameters) -> list[Entry]:
        entries = parameters[self.entries]
        if not self.unprocessed:
            return [("", one) for one in entries]
        return [
            (table, one)
            for table, asked in entries.items()
            for one in (asked if isinstance(asked, list) else asked["Keys"])
        ]


def _failed(answer: Answer, entries: Sequence[Entry], refused: Collection[int]) -> Answer:
    more = [
        {"Id": entries[at][1]["Id"], "SenderFault": False, "Code": CODE, "Message": MESSAGE} for at in sorted(refused)
    ]
    return {"Successful": [], **answer, "Failed": [*answer.get("Failed", ()), *more]}


def _counted(count: str, answers: str) -> Refuse:
    def refuse(answer: Answer, entries: Sequence[Entry], refused: Collection[int]) -> Answer:
        others = iter(answer.get(answers, ()))
        error = {"ErrorCode": CODE, "ErrorMessage": MESSAGE}
        each = [error if at in refused else next(others) for at in range(len(entries))]
        return {count: answer.get(count, 0) + len(refused), answers: each}

    return refuse


BATCHES: dict[str, BatchCall] = {
    "batch_write_item": BatchCall("RequestItems", unprocessed="UnprocessedItems"),
    "batch_get_item": BatchCall("RequestItems", unprocessed="UnprocessedKeys"),
    "send_message_batch": BatchCall("Entries", _failed),
    "sns.publish_batch": BatchCall("PublishBatchRequestEntries", _failed),
    "events.put_events": BatchCall("Entries", _counted("FailedEntryCount", "Entries")),
    "firehose.put_record_batch": BatchCall("Records", _counted("FailedPutCount", "RequestResponses")),
}
"""The batches by the name of their call."""
