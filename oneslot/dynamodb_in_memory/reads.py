"""Reads by key: GetItem, BatchGetItem and TransactGetItems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oneslot.dynamodb_in_memory.answers import answer, client_error, refuse, refuse_unknown
from oneslot.dynamodb_in_memory.expressions import InvalidExpression, TypedItem
from oneslot.dynamodb_in_memory.expressions.parser import parse_projection
from oneslot.dynamodb_in_memory.expressions.paths import Path, project, refuse_overlaps
from oneslot.dynamodb_in_memory.expressions.scope import Scope
from oneslot.dynamodb_in_memory.tables import StoredTables, refuse_unused

MAXIMUM_BATCH_KEYS = 100
"""BatchGetItem's limit (API reference)."""

MAXIMUM_TRANSACTION_ITEMS = 100
"""The limit of TransactGetItems and TransactWriteItems (API reference)."""

PROJECTION = "ProjectionExpression ExpressionAttributeNames"


class Reads(StoredTables):
    """The operations."""

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read an item by its key; always consistent."""
        refuse_unknown("GetItem", request, f"TableName Key ConsistentRead {PROJECTION}")
        item, wanted = self._one("GetItem", request)
        return answer({} if item is None else {"Item": self._projected([item], wanted)[0]})

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read items by their keys, in the order of the tables' keys; missing ones are left out."""
        name, found = "BatchGetItem", {}
        refuse_unknown(name, request, "RequestItems")
        if not 1 <= sum(len(wanted["Keys"]) for wanted in request["RequestItems"].values()) <= MAXIMUM_BATCH_KEYS:
            refuse(name, "ValidationException", "Too many items requested for the BatchGetItem call")
        for table_name, wanted in request["RequestItems"].items():
            refuse_unknown(name, wanted, f"Keys ConsistentRead {PROJECTION}")
            table = self._table(name, {"TableName": table_name})
            texts = [table.key_text(self._key(name, table, key)) for key in wanted["Keys"]]
            if len(set(texts)) != len(texts):
                refuse(name, "ValidationException", "Provided list of item keys contains duplicates")
            items = self.contents.tables[table_name]
            read = [items[text] for text in sorted(texts) if text in items]
            found[table_name] = self._projected(read, self._wanted(name, wanted))
        return answer({"Responses": found, "UnprocessedKeys": {}})

    def transact_get_items(self, **request: Any) -> Mapping[str, Any]:
        """Read items of one moment; a missing one is an empty answer."""
        name = "TransactGetItems"
        refuse_unknown(name, request, "TransactItems")
        if not 1 <= len(request["TransactItems"]) <= MAXIMUM_TRANSACTION_ITEMS:
            refuse(name, "ValidationException", "a transaction takes 1 to 100 items")
        responses = []
        for one in request["TransactItems"]:
            refuse_unknown(name, one["Get"], f"TableName Key {PROJECTION}")
            item, wanted = self._one(name, one["Get"])
            responses.append({} if item is None else {"Item": self._projected([item], wanted)[0]})
        return answer({"Responses": responses})

    def _one(self, name: str, request: Mapping[str, Any]) -> tuple[TypedItem | None, Sequence[Path] | None]:
        table = self._table(name, request)
        wanted = self._wanted(name, request)
        return self._items(request).get(table.key_text(self._key(name, table, request["Key"]))), wanted

    def _wanted(self, name: str, request: Mapping[str, Any]) -> list[Path] | None:
        """Return the paths that a read asks for; None for all."""
        try:
            if "ProjectionExpression" not in request:
                refuse_unused(request, ())
                return None
            parsed = parse_projection(request["ProjectionExpression"])
            refuse_unused(request, (parsed,))
            return projected_paths(request)
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", f"Invalid ProjectionExpression: {error}") from None

    def _projected(self, items: Sequence[TypedItem], wanted: Sequence[Path] | None) -> list[TypedItem]:
        return [dict(item) if wanted is None else project(item, wanted) for item in items]


def projected_paths(request: Mapping[str, Any]) -> list[Path]:
    """Return the paths of a request's projection.

    Raises:
        InvalidExpression: if it is invalid.
    """
    scope = Scope(request)
    paths = [path.path(scope) for path in parse_projection(request["ProjectionExpression"]).paths]
    refuse_overlaps(paths)
    return paths
