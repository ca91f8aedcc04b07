"""An in-memory port of the few DynamoDB calls that this product and its peers make, fast enough for millions of calls.

Requests, answers and errors have the shapes of boto3's client. It is strict: a parameter, an option or an expression that
it does not know is refused with `UnsupportedRequest`, never ignored.
`tests/oneslot/explorer/services/test_dynamodb_contract.py` holds it, moto and
the embedded AWS to one contract. Not modelled: eventual consistency, capacity, item sizes, time to live, paging by size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from botocore.exceptions import ClientError

from oneslot.explorer.services.expressions import Expression, InvalidExpression, TypedItem, unused

TOKEN_WINDOW_MS = 10 * 60 * 1000
"""How long DynamoDB remembers a ClientRequestToken: ten minutes (API reference, TransactWriteItems)."""

MAXIMUM_TRANSACTION_ITEMS = 100
"""TransactWriteItems' limit (API reference)."""

MAXIMUM_BATCH_KEYS = 100
"""BatchGetItem's limit (API reference)."""


class UnsupportedRequest(AssertionError):
    """The port does not know this request: teach it, or change the request."""


@dataclass(frozen=True)
class Table:
    """A table's keys, and its local secondary indexes: name → sort key."""

    partition_key: str
    sort_key: str = ""
    indexes: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the primary key's attributes."""
        return (self.partition_key, self.sort_key) if self.sort_key else (self.partition_key,)

    def key_text(self, item: TypedItem) -> str:
        """One text for an item's primary key."""
        return "/".join(json.dumps(item[name], sort_keys=True) for name in self.keys)


@dataclass
class Contents:
    """Everything that the service remembers: items by table and key, and the tokens of successful transactions.

    Items are never changed in place, so that a shallow copy is a snapshot.
    """

    tables: dict[str, dict[str, TypedItem]] = field(default_factory=dict)
    tokens: dict[str, tuple[int, str]] = field(default_factory=dict)

    def copy(self) -> Contents:
        """A snapshot."""
        return Contents({name: dict(items) for name, items in self.tables.items()}, dict(self.tokens))


class InMemoryDynamoDB:
    """The port. `now_ms` is its clock (epoch ms), used for the tokens of transactions only."""

    def __init__(
        self, now_ms: Callable[[], int], tables: Mapping[str, Table] | None = None, contents: Contents | None = None
    ) -> None:
        self._now_ms = now_ms
        self.tables = dict(tables or {})
        self.contents = contents or Contents({name: {} for name in self.tables})

    def create_table(self, **request: Any) -> Mapping[str, Any]:
        """Create a table from boto3's parameters."""
        _only(
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
        return _answer({})

    def put_item(self, **request: Any) -> Mapping[str, Any]:
        """Write an item, perhaps under a condition."""
        _only(request, f"TableName Item {_CONDITION}")
        return self._write("PutItem", request)

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """Change an item, or make one, perhaps under a condition."""
        _only(request, f"TableName Key UpdateExpression ReturnValues {_CONDITION}")
        return self._write("UpdateItem", request)

    def delete_item(self, **request: Any) -> Mapping[str, Any]:
        """Delete an item, perhaps under a condition."""
        _only(request, f"TableName Key {_CONDITION}")
        return self._write("DeleteItem", request)

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read an item by its key; always consistent."""
        _only(request, "TableName Key ConsistentRead")
        table = self._table("GetItem", request)
        self._check_key("GetItem", table, request["Key"], exactly=True)
        item = self._items(request).get(table.key_text(request["Key"]))
        return _answer({} if item is None else {"Item": dict(item)})

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read items by their keys, in the order of the tables' keys; missing ones are left out."""
        _only(request, "RequestItems")
        name, found = "BatchGetItem", {}
        if not 1 <= sum(len(wanted["Keys"]) for wanted in request["RequestItems"].values()) <= MAXIMUM_BATCH_KEYS:
            _refuse(name, "ValidationException", "a batch takes 1 to 100 keys")
        for table_name, wanted in request["RequestItems"].items():
            _only(wanted, "Keys ConsistentRead")
            table = self._table(name, {"TableName": table_name})
            for key in wanted["Keys"]:
                self._check_key(name, table, key, exactly=True)
            texts = [table.key_text(key) for key in wanted["Keys"]]
            if len(set(texts)) != len(texts):
                _refuse(name, "ValidationException", "Provided list of item keys contains duplicates")
            items = self.contents.tables[table_name]
            found[table_name] = [dict(items[text]) for text in sorted(texts) if text in items]
        return _answer({"Responses": found, "UnprocessedKeys": {}})

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Read one partition, of the table or of a local secondary index, in the order of its sort key."""
        _only(
            request,
            "TableName IndexName KeyConditionExpression ExpressionAttributeNames ExpressionAttributeValues"
            " ConsistentRead Limit ProjectionExpression Select ScanIndexForward",
        )
        table = self._table("Query", request)
        sort_key = table.sort_key
        if "IndexName" in request:
            if request["IndexName"] not in table.indexes:
                _refuse("Query", "ValidationException", "The table does not have the specified index")
            sort_key = table.indexes[request["IndexName"]]
        if request.get("Select", "ALL_ATTRIBUTES") not in ("ALL_ATTRIBUTES", "COUNT"):
            raise UnsupportedRequest(f"Select {request['Select']}")
        expression = Expression(request["KeyConditionExpression"], request)
        projection = Expression(request.get("ProjectionExpression", ""), request)
        try:
            wanted = projection.projection() if "ProjectionExpression" in request else None
            holds = expression.key_condition(table.partition_key, sort_key)
            # Asked once in any case: an empty table refuses a wrong expression, too.
            holds({})
            found = [item for item in self._items(request).values() if sort_key in item or not sort_key]
            found = [item for item in found if holds(item)]
        except InvalidExpression as error:
            _refuse("Query", "ValidationException", str(error))
        self._check_unused("Query", request, expression.used | projection.used)
        if sort_key:
            found.sort(key=lambda item: str(item[sort_key]["S"]).encode())
        if not request.get("ScanIndexForward", True):
            found.reverse()
        limit = request.get("Limit", len(found) + 1)
        answer: dict[str, Any] = {"Count": len(found[:limit]), "ScannedCount": len(found[:limit])}
        if request.get("Select") != "COUNT":
            answer["Items"] = self._projected(found[:limit], wanted)
        if len(found) >= limit:
            last = found[limit - 1]
            answer["LastEvaluatedKey"] = {name: last[name] for name in {*table.keys, sort_key} - {""}}
        return _answer(answer)

    def _projected(self, items: Sequence[TypedItem], wanted: Sequence[str] | None) -> list[TypedItem]:
        return [{name: item[name] for name in (item if wanted is None else wanted) if name in item} for item in items]

    def scan(self, **request: Any) -> Mapping[str, Any]:
        """Read a whole table, in the order of its keys."""
        _only(request, "TableName ConsistentRead")
        self._table("Scan", request)
        items = [dict(item) for _, item in sorted(self._items(request).items())]
        return _answer({"Items": items, "Count": len(items), "ScannedCount": len(items)})

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """Perform all writes, or none and say why for each. A repeated token is answered, not performed again."""
        _only(request, "TransactItems ClientRequestToken")
        name = "TransactWriteItems"
        token, now = request.get("ClientRequestToken"), self._now_ms()
        wanted = json.dumps(request, sort_keys=True)
        if token is not None and token in self.contents.tokens:
            since, performed = self.contents.tokens[token]
            if now < since + TOKEN_WINDOW_MS:
                if performed != wanted:
                    _refuse(name, "IdempotentParameterMismatchException", "the token was used with other parameters")
                return _answer({})
        results, reasons = self._evaluate(request)
        if any(reason["Code"] != "None" for reason in reasons):
            raise cancelled(reasons)
        for table_name, key, after in results:
            self._store(table_name, key, after)
        if token is not None:
            self.contents.tokens[token] = (now, wanted)
        return _answer({})

    def refuse_for_conflict(self, position: int, **request: Any) -> NoReturn:
        """Refuse a transaction because another one holds the item at `position`; the other items' reasons are true."""
        _, reasons = self._evaluate(request)
        reasons[position] = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
        raise cancelled(reasons)

    def _evaluate(
        self, request: Mapping[str, Any]
    ) -> tuple[list[tuple[str, str, TypedItem | None]], list[dict[str, Any]]]:
        name = "TransactWriteItems"
        if not 1 <= len(request["TransactItems"]) <= MAXIMUM_TRANSACTION_ITEMS:
            _refuse(name, "ValidationException", "a transaction takes 1 to 100 items")
        results: list[tuple[str, str, TypedItem | None]] = []
        reasons: list[dict[str, Any]] = []
        for action in request["TransactItems"]:
            ((kind, write),) = action.items()
            allowed = {"Put": "Item", "Update": "Key UpdateExpression", "Delete": "Key", "ConditionCheck": "Key"}
            if kind not in allowed:
                raise UnsupportedRequest(f"{kind} in a transaction")
            _only(write, f"TableName {allowed[kind]} {_CONDITION}")
            try:
                key, _, after, _ = self._outcome(name, write, "Key" in write and kind == "ConditionCheck")
            except _ConditionFailed as failed:
                key, after = failed.key, None
                reason = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
                reasons.append({**reason, **failed.found(write)})
            else:
                reasons.append({"Code": "None"})
            results.append((write["TableName"], key, after))
        if len({(table, key) for table, key, _ in results}) != len(results):
            _refuse(name, "ValidationException", "Transaction request cannot include multiple operations on one item")
        return results, reasons

    def _write(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            key, before, after, written = self._outcome(name, request, unchanged=False)
        except _ConditionFailed as failed:
            raise _error(
                name,
                "ConditionalCheckFailedException",
                "The conditional request failed",
                **failed.found(request),
            ) from None
        self._store(request["TableName"], key, after)
        return _answer(_returned(request.get("ReturnValues", "NONE"), before, after or {}, written))

    def _outcome(
        self, name: str, write: Mapping[str, Any], unchanged: bool
    ) -> tuple[str, TypedItem, TypedItem | None, set[str]]:
        """The key, the item before (empty: none), the item after (None: deleted) and the attributes written."""
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
            _refuse(name, "ValidationException", f"Invalid expression: {error}")
        self._check_unused(name, write, used)
        if not holds:
            raise _ConditionFailed(key, before)
        if after is not None and "Key" in write and any(after[part] != write["Key"][part] for part in table.keys):
            _refuse(name, "ValidationException", "Cannot update attribute: it is part of the key")
        return key, before, after, written

    def _store(self, table_name: str, key: str, after: TypedItem | None) -> None:
        if after is None:
            self.contents.tables[table_name].pop(key, None)
        else:
            self.contents.tables[table_name][key] = after

    def _table(self, name: str, request: Mapping[str, Any]) -> Table:
        table = self.tables.get(request["TableName"])
        if table is None:
            _refuse(name, "ResourceNotFoundException", "Requested resource not found")
        return table

    def _items(self, request: Mapping[str, Any]) -> dict[str, TypedItem]:
        return self.contents.tables[request["TableName"]]

    def _check_key(self, name: str, table: Table, key: TypedItem, *, exactly: bool) -> None:
        missing = any(part not in key for part in table.keys)
        if missing or (exactly and set(key) != set(table.keys)):
            _refuse(name, "ValidationException", "The provided key element does not match the schema")

    def _check_unused(self, name: str, request: Mapping[str, Any], used: set[str]) -> None:
        problem = unused(request, used)
        if problem is not None:
            _refuse(name, "ValidationException", problem)


_CONDITION = (
    "ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure"
)


class _ConditionFailed(Exception):
    def __init__(self, key: str, item: TypedItem) -> None:
        super().__init__(key)
        self.key = key
        self.item = item

    def found(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wanted = request.get("ReturnValuesOnConditionCheckFailure", "NONE")
        if wanted not in ("NONE", "ALL_OLD"):
            raise UnsupportedRequest(f"ReturnValuesOnConditionCheckFailure {wanted}")
        return {"Item": dict(self.item)} if wanted == "ALL_OLD" and self.item else {}


def cancelled(reasons: Iterable[Mapping[str, Any]]) -> ClientError:
    """The error of a transaction that was cancelled for these reasons, one for each of its items."""
    reasons = list(reasons)
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return _error("TransactWriteItems", "TransactionCanceledException", message, CancellationReasons=reasons)


def _returned(wanted: str, before: TypedItem, after: TypedItem, written: set[str]) -> Mapping[str, Any]:
    match wanted:
        case "NONE":
            return {}
        case "ALL_NEW":
            return {"Attributes": dict(after)}
        case "ALL_OLD":
            return {"Attributes": dict(before)} if before else {}
        case "UPDATED_NEW":
            changed = {name: value for name, value in after.items() if name in written}
            return {"Attributes": changed} if changed else {}
    raise UnsupportedRequest(f"ReturnValues {wanted}")


def _key_schema(elements: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {element["KeyType"]: element["AttributeName"] for element in elements}


def _answer(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, "ResponseMetadata": {"HTTPStatusCode": 200}}


def _only(request: Mapping[str, Any], known: str) -> None:
    unknown = set(request) - set(known.split())
    if unknown:
        raise UnsupportedRequest(f"parameters {sorted(unknown)}")


def _error(name: str, code: str, message: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}, **more}, name)  # type: ignore[typeddict-item]


def _refuse(name: str, code: str, message: str) -> NoReturn:
    raise _error(name, code, message)
