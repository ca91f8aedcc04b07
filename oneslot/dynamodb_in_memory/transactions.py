"""TransactWriteItems: all writes or none, once for a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from oneslot.dynamodb_in_memory.answers import (
    ConditionFailed,
    UnsupportedRequest,
    answer,
    cancelled,
    refuse,
    refuse_unknown,
)
from oneslot.dynamodb_in_memory.contents import as_text
from oneslot.dynamodb_in_memory.expressions import TypedItem
from oneslot.dynamodb_in_memory.reads import MAXIMUM_TRANSACTION_ITEMS
from oneslot.dynamodb_in_memory.writes import CONDITION, ItemRefused, Writes

TOKEN_WINDOW_MS = 10 * 60 * 1000
"""The time that DynamoDB remembers a ClientRequestToken (API reference, TransactWriteItems)."""

_KINDS = {"Put": "Item", "Update": "Key UpdateExpression", "Delete": "Key", "ConditionCheck": "Key"}


class Transactions(Writes):
    """The operation."""

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """Perform all writes, or none, with a reason for each. A repeated token is answered, not performed again."""
        name = "TransactWriteItems"
        refuse_unknown(name, request, "TransactItems ClientRequestToken")
        token, now = request.get("ClientRequestToken"), self._now_ms()
        wanted = "" if token is None else as_text(request)
        if token is not None and token in self.contents.tokens:
            self._depends_on_time()
            since, performed = self.contents.tokens[token]
            if now < since + TOKEN_WINDOW_MS:
                if performed != wanted:
                    refuse(name, "IdempotentParameterMismatchException", "the token was used with other parameters")
                return answer({})
        results, reasons = self._evaluate(request)
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancelled(reasons)
        for table_name, key, after in results:
            self._store(table_name, key, after)
        if token is not None:
            self.contents.tokens[token] = (now, wanted)
        return answer({})

    def refuse_for_conflict(self, position: int, **request: Any) -> NoReturn:
        """Refuse a transaction because another one holds the item at `position`. The other reasons are the real ones."""
        _, reasons = self._evaluate(request)
        reasons[position] = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
        raise cancelled(reasons)

    def _evaluate(
        self, request: Mapping[str, Any]
    ) -> tuple[list[tuple[str, str, TypedItem | None]], list[dict[str, Any]]]:
        name = "TransactWriteItems"
        if not 1 <= len(request["TransactItems"]) <= MAXIMUM_TRANSACTION_ITEMS:
            refuse(name, "ValidationException", "a transaction takes 1 to 100 items")
        results: list[tuple[str, str, TypedItem | None]] = []
        reasons: list[dict[str, Any]] = []
        for action in request["TransactItems"]:
            ((kind, write),) = action.items()
            if kind not in _KINDS:
                raise UnsupportedRequest(f"{kind} in a transaction")
            refuse_unknown(name, write, f"TableName {_KINDS[kind]} {CONDITION}")
            try:
                key, _, after, _ = self._outcome(name, write, unchanged=kind == "ConditionCheck")
            except ConditionFailed as failed:
                key, after = failed.key, None
                reason = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
                reasons.append({**reason, **failed.found(write)})
            except ItemRefused as refused:
                key, after = refused.key or f"invalid {len(reasons)}", None
                reasons.append({"Code": "ValidationError", "Message": str(refused)})
            else:
                reasons.append({"Code": "None"})
            results.append((write["TableName"], key, after))
        if len({(table, key) for table, key, _ in results}) != len(results):
            refuse(name, "ValidationException", "Transaction request cannot include multiple operations on one item")
        return results, reasons
