"""Batches that AWS performs without their last entry: the answer says so, and a handler must read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Parameters = Mapping[str, Any]
Answer = Mapping[str, Any]
Refuse = Callable[[Answer, Any], Answer]
"""Adds a refused entry to the answer for the others."""

CODE, MESSAGE = "InternalError", "injected"


@dataclass(frozen=True)
class BatchCall:
    """Where a batch has its entries, by table or in one list, and how its answer names a refused one."""

    entries: str
    refuse: Refuse
    by_table: bool = False

    def may_refuse(self, parameters: Parameters) -> bool:
        """Return whether a successful answer can refuse the last entry. DynamoDB throttles a call of one item."""
        return not self.by_table or self.split(parameters)[0] is not None

    def split(self, parameters: Parameters) -> tuple[Parameters | None, Any]:
        """Return the call without its last entry (None: it was the only one), and that entry."""
        entries = parameters[self.entries]
        if not self.by_table:
            rest = entries[:-1]
            return {**parameters, self.entries: rest} if rest else None, entries[-1]
        table = list(entries)[-1]
        asked = entries[table]
        held: Any = asked if isinstance(asked, list) else asked["Keys"]

        def among(some: Any) -> Any:
            return some if isinstance(asked, list) else {**asked, "Keys": some}

        others = {**entries, table: among(held[:-1])}
        if not held[:-1]:
            del others[table]
        return {**parameters, self.entries: others} if others else None, {table: among(held[-1:])}


def _failed(answer: Answer, entry: Any) -> Answer:
    refused = {"Id": entry["Id"], "SenderFault": False, "Code": CODE, "Message": MESSAGE}
    return {"Successful": [], **answer, "Failed": [*answer.get("Failed", ()), refused]}


def _counted(count: str, answers: str) -> Refuse:
    def refuse(answer: Answer, entry: Any) -> Answer:
        refused = {"ErrorCode": CODE, "ErrorMessage": MESSAGE}
        return {count: answer.get(count, 0) + 1, answers: [*answer.get(answers, ()), refused]}

    return refuse


BATCHES: dict[str, BatchCall] = {
    "batch_write_item": BatchCall("RequestItems", lambda answer, entry: {**answer, "UnprocessedItems": entry}, True),
    "batch_get_item": BatchCall("RequestItems", lambda answer, entry: {**answer, "UnprocessedKeys": entry}, True),
    "send_message_batch": BatchCall("Entries", _failed),
    "sns.publish_batch": BatchCall("PublishBatchRequestEntries", _failed),
    "events.put_events": BatchCall("Entries", _counted("FailedEntryCount", "Entries")),
    "firehose.put_record_batch": BatchCall("Records", _counted("FailedPutCount", "RequestResponses")),
}
"""The batches by the name of their call."""
