"""Writes: PutItem, UpdateItem, DeleteItem and BatchWriteItem; and TransactWriteItems, all writes or none."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from oneslot.dynamodb_in_memory.answers import (
    ConditionFailed,
    UnsupportedRequest,
    answer,
    cancelled,
    client_error,
    refuse,
    refuse_unknown,
    returned,
)
from oneslot.dynamodb_in_memory.contents import TableSchema, as_text
from oneslot.dynamodb_in_memory.expressions.parser import Change, Parsed, parse_update
from oneslot.dynamodb_in_memory.expressions.paths import Path, changed, find, refuse_overlaps
from oneslot.dynamodb_in_memory.expressions.trees import INCORRECT_TYPE, Scope, required
from oneslot.dynamodb_in_memory.expressions.values import (
    SETS,
    AttributeValue,
    InvalidExpression,
    TypedItem,
    added,
    joined,
    without,
)
from oneslot.dynamodb_in_memory.tables import (
    INVALID,
    MAXIMUM_TRANSACTION_ITEMS,
    StoredTables,
    checked_condition,
    checked_item,
    checked_key,
    refuse_index_keys,
    refuse_unused,
)

MAXIMUM_BATCH_WRITES = 25
"""BatchWriteItem's limit (API reference)."""

CONDITION = "ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure"

TOKEN_WINDOW_MS = 10 * 60 * 1000
"""The time that DynamoDB remembers a ClientRequestToken (API reference, TransactWriteItems)."""

_KINDS = {"Put": "Item", "Update": "Key UpdateExpression", "Delete": "Key", "ConditionCheck": "Key"}

_TAKES = {"ADD": ("N", *SETS), "DELETE": SETS}
"""The types of the values that a section of an update takes; SET takes every type."""

Outcome = tuple[str, TypedItem, TypedItem | None, list[Path]]
"""A write's key, the item before (empty: none), the item after (None: deleted), and the paths that an update writes."""


class ItemRefused(Exception):
    """A write that does not fit its item or table. Alone it is a ValidationException, in a transaction a reason."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Writes(StoredTables):
    """The operations."""

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """Write an item, perhaps under a condition."""
        refuse_unknown("PutItem", request, f"TableName Item ReturnValues {CONDITION}")
        return self._write("PutItem", request)

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """Change or create an item, perhaps under a condition."""
        refuse_unknown("UpdateItem", request, f"TableName Key UpdateExpression ReturnValues {CONDITION}")
        return self._write("UpdateItem", request)

    def delete_item(self, **request: Any) -> Mapping[str, Any]:
        """Delete an item, perhaps under a condition."""
        refuse_unknown("DeleteItem", request, f"TableName Key ReturnValues {CONDITION}")
        return self._write("DeleteItem", request)

    def batch_write_item(self, **request: Any) -> Mapping[str, Any]:
        """Put and delete items, without conditions; no two writes on one item."""
        name, outcomes = "BatchWriteItem", dict[tuple[str, str], TypedItem | None]()
        refuse_unknown(name, request, "RequestItems")
        if not 1 <= sum(len(writes) for writes in request["RequestItems"].values()) <= MAXIMUM_BATCH_WRITES:
            refuse(name, "ValidationException", "Too many items requested for the BatchWriteItem call")
        for table_name, writes in request["RequestItems"].items():
            for entry in writes:
                write = {"TableName": table_name, **next(iter(entry.values()))}
                try:
                    key, _, after, _ = self._outcome(name, write, unchanged=False)
                except ItemRefused as refused:
                    raise client_error(name, "ValidationException", str(refused)) from None
                if (table_name, key) in outcomes:
                    refuse(name, "ValidationException", "Provided list of item keys contains duplicates")
                outcomes[table_name, key] = after
        for (table_name, key), after in outcomes.items():
            self._store(table_name, key, after)
        return answer({"UnprocessedItems": {}})

    def _write(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        wanted = request.get("ReturnValues", "NONE")
        if wanted not in ("NONE", "ALL_OLD") and name != "UpdateItem":
            refuse(name, "ValidationException", "ReturnValues can only be ALL_OLD or NONE")
        try:
            key, before, after, written = self._outcome(name, request, unchanged=False)
        except ConditionFailed as failed:
            raise client_error(
                name, "ConditionalCheckFailedException", "The conditional request failed", **failed.found(request)
            ) from None
        except ItemRefused as refused:
            raise client_error(name, "ValidationException", str(refused)) from None
        self._store(request["TableName"], key, after)
        return answer(returned(wanted, before, after or {}, written))

    def _outcome(self, name: str, write: Mapping[str, Any], unchanged: bool) -> Outcome:
        """Return what a write does; `unchanged` for one that only checks a condition.

        Raises `ConditionFailed`, or `ItemRefused` if the table or the item cannot take it.
        """
        table = self._table(name, write)
        scope, expressions, written = Scope(write), list[Parsed[Any]](), list[Path]()
        condition: Any = None
        update: list[Change] | None = None
        try:
            if "ConditionExpression" in write:
                condition = checked_condition(write["ConditionExpression"], scope)
                expressions.append(condition)
            if "UpdateExpression" in write:
                parsed = parse_update(write["UpdateExpression"])
                expressions.append(parsed)
                update = parsed.said
                written = _check_update(update, scope)
            refuse_unused(write, expressions)
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", f"Invalid expression: {error}") from None
        key_of_item = ""
        try:
            item = checked_item(table, write["Item"]) if "Item" in write else checked_key(table, write["Key"])
            key_of_item = table.key_text(item)
            _refuse_keys(table, written)
            before = self._items(write).get(key_of_item, {})
            if condition is not None and not condition.said.read(before, scope):
                raise ConditionFailed(key_of_item, before)
            after: TypedItem | None = None
            if unchanged:
                after = before or None
            elif "Item" in write:
                after = item
            elif update is not None:
                after = _apply_update(update, {**before, **item}, scope)
            elif name == "UpdateItem":
                after = {**before, **item}
            if after is not None and table.indexes:
                refuse_index_keys(table, after)
        except InvalidExpression as error:
            raise ItemRefused(key_of_item, str(error)) from None
        return key_of_item, before, after, written

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


def _check_update(update: Sequence[Change], scope: Scope) -> list[Path]:
    """Return the paths that an update writes; raise `InvalidExpression` for what is invalid whatever the item is."""
    paths = [path.path(scope) for _, path, _ in update]
    refuse_overlaps(paths)
    for section, _, operand in update:
        kind = None if operand is None else operand.type(scope)
        if kind not in (None, *_TAKES.get(section, (kind,))):
            raise InvalidExpression(f"{INCORRECT_TYPE} operator: {section}, operand type: {kind}")
    return paths


def _apply_update(update: Sequence[Change], item: TypedItem, scope: Scope) -> dict[str, AttributeValue]:
    """Return the item after an update. Every right-hand side sees the item as it was before.

    Raises `InvalidExpression` for an update that does not fit the item.
    """
    values: dict[Path, AttributeValue | None] = {}
    for section, operand, right in update:
        path = operand.path(scope)
        before = find(item, path)
        if right is None or (section == "DELETE" and before is None):
            values[path] = None
            continue
        value = required(right, item, scope)
        if section == "SET" or before is None:
            values[path] = value
        elif section == "DELETE":
            values[path] = without(before, value)
        else:
            values[path] = added(before, value) if "N" in value else joined(before, value)
    return changed(item, values)


def _refuse_keys(table: TableSchema, written: Sequence[Path]) -> None:
    for path in written:
        if path[0] in table.keys:
            raise InvalidExpression(f"{INVALID}Cannot update attribute {path[0]}. This attribute is part of the key")
