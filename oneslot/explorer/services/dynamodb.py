"""An in-memory stand-in for DynamoDB, fast enough for millions of calls.

Requests, answers and errors have the shapes of boto3's client. An unknown parameter, option or expression raises
`UnsupportedRequest`. `tests/oneslot/explorer/services/test_dynamodb_contract.py` holds this, moto and the embedded AWS to one
contract. Not modelled: eventual consistency, capacity, item sizes, time to live, paging by size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from oneslot.explorer.services.answers import (
    ConditionFailed,
    UnsupportedRequest,
    answer,
    cancelled,
    client_error,
    refuse,
    refuse_unknown,
    returned,
)
from oneslot.explorer.services.contents import Contents, Table
from oneslot.explorer.services.expressions import Expression, InvalidExpression, TypedItem, unused

TOKEN_WINDOW_MS = 10 * 60 * 1000
"""The time that DynamoDB remembers a ClientRequestToken (API reference, TransactWriteItems)."""

MAXIMUM_TRANSACTION_ITEMS = 100
"""TransactWriteItems' limit (API reference)."""

MAXIMUM_BATCH_KEYS = 100
"""BatchGetItem's limit (API reference)."""

_PROJECTION = "ProjectionExpression ExpressionAttributeNames"
_CONDITION = (
    "ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure"
)


class InMemoryDynamoDB:
    """The stand-in. `now_ms` is its clock (epoch ms), used only for the tokens of transactions."""

    def __init__(
        self, now_ms: Callable[[], int], tables: Mapping[str, Table] | None = None, contents: Contents | None = None
    ) -> None:
        self._now_ms = now_ms
        self.tables = dict(tables or {})
        self.contents = contents or Contents({name: {} for name in self.tables})

    def create_table(self, **request: Any) -> Mapping[str, Any]:
        """Create a table from boto3's parameters."""
        refuse_unknown(
            request,
            "TableName KeySchema AttributeDefinitions BillingMode LocalSecondaryIndexes GlobalSecondaryIndexes",
        )
        indexes = {
            index["IndexName"]: _key_schema(index["KeySchema"]).get("RANGE", "")
            for index in request.get("LocalSecondaryIndexes", ())
        }
        keys = _key_schema(request["KeySchema"])
        self.tables[request["TableName"]] = Table(keys["HASH"], keys.get("RANGE", ""), indexes)
        self.contents.tables[request["TableName"]] = {}
        return answer({})

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """Write an item, perhaps under a condition."""
        refuse_unknown(request, f"TableName Item {_CONDITION}")
        return self._write("PutItem", request)

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """Change or create an item, perhaps under a condition."""
        refuse_unknown(request, f"TableName Key UpdateExpression ReturnValues {_CONDITION}")
        return self._write("UpdateItem", request)

    def delete_item(self, **request: Any) -> Mapping[str, Any]:
        """Delete an item, perhaps under a condition."""
        refuse_unknown(request, f"TableName Key {_CONDITION}")
        return self._write("DeleteItem", request)

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read an item by its key; always consistent."""
        refuse_unknown(request, f"TableName Key ConsistentRead {_PROJECTION}")
        table = self._table("GetItem", request)
        self._check_key("GetItem", table, request["Key"], exactly=True)
        wanted = self._wanted("GetItem", request)
        item = self._items(request).get(table.key_text(request["Key"]))
        return answer({} if item is None else {"Item": self._projected([item], wanted)[0]})

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read items by their keys, in the order of the tables' keys; missing ones are left out."""
        refuse_unknown(request, "RequestItems")
        name, found = "BatchGetItem", {}
        if not 1 <= sum(len(wanted["Keys"]) for wanted in request["RequestItems"].values()) <= MAXIMUM_BATCH_KEYS:
            refuse(name, "ValidationException", "a batch takes 1 to 100 keys")
        for table_name, wanted in request["RequestItems"].items():
            refuse_unknown(wanted, f"Keys ConsistentRead {_PROJECTION}")
            table = self._table(name, {"TableName": table_name})
            for key in wanted["Keys"]:
                self._check_key(name, table, key, exactly=True)
            texts = [table.key_text(key) for key in wanted["Keys"]]
            if len(set(texts)) != len(texts):
                refuse(name, "ValidationException", "Provided list of item keys contains duplicates")
            items = self.contents.tables[table_name]
            read = [items[text] for text in sorted(texts) if text in items]
            found[table_name] = self._projected(read, self._wanted(name, wanted))
        return answer({"Responses": found, "UnprocessedKeys": {}})

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Read one partition, of the table or of a local secondary index, in the order of its sort key."""
        refuse_unknown(
            request,
            "TableName IndexName KeyConditionExpression ExpressionAttributeNames ExpressionAttributeValues"
            " ConsistentRead Limit ProjectionExpression Select ScanIndexForward",
        )
        table = self._table("Query", request)
        sort_key = table.sort_key
        if "IndexName" in request:
            if request["IndexName"] not in table.indexes:
                refuse("Query", "ValidationException", "The table does not have the specified index")
            sort_key = table.indexes[request["IndexName"]]
        if request.get("Select", "ALL_ATTRIBUTES") not in ("ALL_ATTRIBUTES", "COUNT"):
            raise UnsupportedRequest(f"Select {request['Select']}")
        expression = Expression(request["KeyConditionExpression"], request)
        projection = Expression(request.get("ProjectionExpression", ""), request)
        try:
            wanted = projection.projection() if "ProjectionExpression" in request else None
            holds = expression.key_condition(table.partition_key, sort_key)
            # Evaluated once in any case, because an empty table refuses an invalid expression, too.
            holds({})
            found = [item for item in self._items(request).values() if sort_key in item or not sort_key]
            found = [item for item in found if holds(item)]
        except InvalidExpression as error:
            refuse("Query", "ValidationException", str(error))
        self._check_unused("Query", request, expression.used | projection.used)
        if sort_key:
            found.sort(key=lambda item: str(item[sort_key]["S"]).encode())
        if not request.get("ScanIndexForward", True):
            found.reverse()
        limit = request.get("Limit", len(found) + 1)
        found_page: dict[str, Any] = {"Count": len(found[:limit]), "ScannedCount": len(found[:limit])}
        if request.get("Select") != "COUNT":
            found_page["Items"] = self._projected(found[:limit], wanted)
        if len(found) >= limit:
            last = found[limit - 1]
            found_page["LastEvaluatedKey"] = {name: last[name] for name in (*table.keys, sort_key) if name}
        return answer(found_page)

    def _wanted(self, name: str, request: Mapping[str, Any]) -> list[str] | None:
        """Return the attributes that a read asks for; None for all."""
        if "ProjectionExpression" not in request:
            return None
        expression = Expression(request["ProjectionExpression"], request)
        try:
            wanted = expression.projection()
        except InvalidExpression as error:
            refuse(name, "ValidationException", str(error))
        self._check_unused(name, request, expression.used)
        return wanted

    def _projected(self, items: Sequence[TypedItem], wanted: Sequence[str] | None) -> list[TypedItem]:
        return [{name: item[name] for name in (item if wanted is None else wanted) if name in item} for item in items]

    def scan(self, **request: Any) -> Mapping[str, Any]:
        """Read a whole table, in the order of its keys."""
        refuse_unknown(request, "TableName ConsistentRead")
        self._table("Scan", request)
        items = [dict(item) for _, item in sorted(self._items(request).items())]
        return answer({"Items": items, "Count": len(items), "ScannedCount": len(items)})

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """Perform all writes, or none, with a reason for each. A repeated token is answered, not performed again."""
        refuse_unknown(request, "TransactItems ClientRequestToken")
        name = "TransactWriteItems"
        token, now = request.get("ClientRequestToken"), self._now_ms()
        wanted = json.dumps(request, sort_keys=True)
        if token is not None and token in self.contents.tokens:
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
            allowed = {"Put": "Item", "Update": "Key UpdateExpression", "Delete": "Key", "ConditionCheck": "Key"}
            if kind not in allowed:
                raise UnsupportedRequest(f"{kind} in a transaction")
            refuse_unknown(write, f"TableName {allowed[kind]} {_CONDITION}")
            try:
                key, _, after, _ = self._outcome(name, write, "Key" in write and kind == "ConditionCheck")
            except ConditionFailed as failed:
                key, after = failed.key, None
                reason = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
                reasons.append({**reason, **failed.found(write)})
            else:
                reasons.append({"Code": "None"})
            results.append((write["TableName"], key, after))
        if len({(table, key) for table, key, _ in results}) != len(results):
            refuse(name, "ValidationException", "Transaction request cannot include multiple operations on one item")
        return results, reasons

    def _write(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            key, before, after, written = self._outcome(name, request, unchanged=False)
        except ConditionFailed as failed:
            raise client_error(
                name,
                "ConditionalCheckFailedException",
                "The conditional request failed",
                **failed.found(request),
            ) from None
        self._store(request["TableName"], key, after)
        return answer(returned(request.get("ReturnValues", "NONE"), before, after or {}, written))

    def _outcome(
        self, name: str, write: Mapping[str, Any], unchanged: bool
    ) -> tuple[str, TypedItem, TypedItem | None, set[str]]:
        """Return the key, the item before (empty: none), the item after (None: deleted) and the written attributes."""
        table = self._table(name, write)
        self._check_key(name, table, write.get("Key") or write["Item"], exactly="Key" in write)
        key = table.key_text(write.get("Key") or write["Item"])
        before = self._items(write).get(key, {})
        used: set[str] = set()
        written: set[str] = set()
        try:
            if "ConditionExpression" in write:
                condition = Expression(write["ConditionExpression"], write)
                holds = condition.condition(before)
                used |= condition.used
            else:
                holds = True
            after: TypedItem | None = write.get("Item")
            if "UpdateExpression" in write:
                update = Expression(write["UpdateExpression"], write)
                after = update.update({**before, **write["Key"]})
                used |= update.used
                written = update.written
            elif unchanged:
                after = before or None
        except InvalidExpression as error:
            refuse(name, "ValidationException", f"Invalid expression: {error}")
        self._check_unused(name, write, used)
        if not holds:
            raise ConditionFailed(key, before)
        if after is not None and "Key" in write and any(after[part] != write["Key"][part] for part in table.keys):
            refuse(name, "ValidationException", "Cannot update attribute: it is part of the key")
        return key, before, after, written

    def _store(self, table_name: str, key: str, after: TypedItem | None) -> None:
        if after is None:
            self.contents.tables[table_name].pop(key, None)
        else:
            self.contents.tables[table_name][key] = after

    def _table(self, name: str, request: Mapping[str, Any]) -> Table:
        table = self.tables.get(request["TableName"])
        if table is None:
            refuse(name, "ResourceNotFoundException", "Requested resource not found")
        return table

    def _items(self, request: Mapping[str, Any]) -> dict[str, TypedItem]:
        return self.contents.tables[request["TableName"]]

    def _check_key(self, name: str, table: Table, key: TypedItem, *, exactly: bool) -> None:
        missing = any(part not in key for part in table.keys)
        if missing or (exactly and set(key) != set(table.keys)):
            refuse(name, "ValidationException", "The provided key element does not match the schema")

    def _check_unused(self, name: str, request: Mapping[str, Any], used: set[str]) -> None:
        problem = unused(request, used)
        if problem is not None:
            refuse(name, "ValidationException", problem)


def _key_schema(elements: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {element["KeyType"]: element["AttributeName"] for element in elements}
