"""Writes: PutItem, UpdateItem, DeleteItem and BatchWriteItem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.dynamodb_in_memory.answers import ConditionFailed, answer, client_error, refuse, refuse_unknown, returned
from oneslot.dynamodb_in_memory.expressions import InvalidExpression, TypedItem
from oneslot.dynamodb_in_memory.expressions.parser import Parsed, ParsedUpdate, parse_update
from oneslot.dynamodb_in_memory.expressions.paths import Path
from oneslot.dynamodb_in_memory.expressions.scope import Scope
from oneslot.dynamodb_in_memory.expressions.updates import apply_update, check_update
from oneslot.dynamodb_in_memory.tables import (
    StoredTables,
    checked_condition,
    checked_item,
    checked_key,
    refuse_index_keys,
    refuse_keys,
    refuse_unused,
)

MAXIMUM_BATCH_WRITES = 25
"""BatchWriteItem's limit (API reference)."""

CONDITION = "ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure"

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
                name,
                "ConditionalCheckFailedException",
                "The conditional request failed",
                **failed.found(request),
            ) from None
        except ItemRefused as refused:
            raise client_error(name, "ValidationException", str(refused)) from None
        self._store(request["TableName"], key, after)
        return answer(returned(wanted, before, after or {}, written))

    def _outcome(self, name: str, write: Mapping[str, Any], unchanged: bool) -> Outcome:
        """Return what a write does; `unchanged` for one that only checks a condition.

        Raises:
            ConditionFailed: if its condition does not hold.
            ItemRefused: if the table or the item cannot take it.
        """
        table = self._table(name, write)
        scope, expressions, written = Scope(write), list[Parsed](), list[Path]()
        condition: Any = None
        update: ParsedUpdate | None = None
        try:
            if "ConditionExpression" in write:
                condition = checked_condition(write["ConditionExpression"], scope)
                expressions.append(condition)
            if "UpdateExpression" in write:
                update = parse_update(write["UpdateExpression"])
                expressions.append(update)
                written = check_update(update, scope)
            refuse_unused(write, expressions)
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", f"Invalid expression: {error}") from None
        key_of_item = ""
        try:
            item = checked_item(table, write["Item"]) if "Item" in write else checked_key(table, write["Key"])
            key_of_item = table.key_text(item)
            refuse_keys(table, written)
            before = self._items(write).get(key_of_item, {})
            if condition is not None and not condition.tree.holds(before, scope):
                raise ConditionFailed(key_of_item, before)
            after: TypedItem | None = None
            if unchanged:
                after = before or None
            elif "Item" in write:
                after = item
            elif update is not None:
                after = apply_update(update, {**before, **item}, scope)
            elif name == "UpdateItem":
                after = {**before, **item}
            if after is not None and table.indexes:
                refuse_index_keys(table, after)
        except InvalidExpression as error:
            raise ItemRefused(key_of_item, str(error)) from None
        return key_of_item, before, after, written
