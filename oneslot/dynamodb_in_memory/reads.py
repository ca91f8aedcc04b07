"""Reads: by key (GetItem, BatchGetItem, TransactGetItems), and Query and Scan, of a table or of an index."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from oneslot.dynamodb_in_memory.answers import answer, client_error, refuse, refuse_unknown
from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.dynamodb_in_memory.expressions.parser import Parsed, parse_projection
from oneslot.dynamodb_in_memory.expressions.paths import Path, project, refuse_overlaps
from oneslot.dynamodb_in_memory.expressions.trees import (
    Expression,
    Operation,
    PathOperand,
    Scope,
    ValueOperand,
    paths_of,
)
from oneslot.dynamodb_in_memory.expressions.values import COMPARATORS, InvalidExpression, TypedItem, order_key
from oneslot.dynamodb_in_memory.tables import (
    INVALID,
    MAXIMUM_TRANSACTION_ITEMS,
    StoredTables,
    checked_condition,
    refuse_unused,
)

MAXIMUM_BATCH_KEYS = 100
"""BatchGetItem's limit (API reference)."""

LARGEST_PAGE = 1_048_576
"""The bytes that a Query or a Scan reads at most: "Paginating table query results" in DynamoDB's developer guide."""

PROJECTION = "ProjectionExpression ExpressionAttributeNames"

_SHARED = (
    "TableName IndexName ConsistentRead ExclusiveStartKey ExpressionAttributeNames ExpressionAttributeValues "
    "FilterExpression Limit ProjectionExpression Select"
)

Keep = Callable[[TypedItem], bool]


class Reads(StoredTables):
    """The operations."""

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read an item by its key; always consistent."""
        refuse_unknown("GetItem", request, f"TableName Key ConsistentRead AttributesToGet {PROJECTION}")
        return answer(self._one("GetItem", request))

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
            read, paths = [items[text] for text in sorted(texts) if text in items], self._wanted(name, wanted)
            found[table_name] = self._projected(read, paths)
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
            responses.append(self._one(name, one["Get"]))
        return answer({"Responses": responses})

    def _one(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        table, wanted = self._table(name, request), self._wanted(name, request)
        item = self._items(request).get(table.key_text(self._key(name, table, request["Key"])))
        return {} if item is None else {"Item": self._projected([item], wanted)[0]}

    def _wanted(self, name: str, request: Mapping[str, Any]) -> list[Path] | None:
        """Return the paths that a read asks for, also in the legacy way; None for all."""
        if "AttributesToGet" in request:
            return [(attribute,) for attribute in request["AttributesToGet"]]
        expressions: list[Parsed[Any]] = []
        try:
            wanted = _projection(request, Scope(request), expressions)
            refuse_unused(request, expressions)
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", f"Invalid ProjectionExpression: {error}") from None
        return wanted

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Read one partition, of the table or of an index, in the order of its sort key."""
        refuse_unknown("Query", request, f"{_SHARED} KeyConditionExpression ScanIndexForward")
        return self._page("Query", request)

    def scan(self, **request: Any) -> Mapping[str, Any]:
        """Read a whole table or index, in the order of its keys."""
        refuse_unknown("Scan", request, _SHARED)
        return self._page("Scan", request)

    def _page(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        table = self._table(name, request)
        index = self._index(name, table, request)
        keys = (*table.keys, *(index.keys if index else ()))
        try:
            selected, passes, wanted = _expressions(name, table, index, request)
            order, forward = _order(table, index, whole=name == "Scan"), request.get("ScanIndexForward", True)
            found = sorted(filter(selected, self._items(request).values()), key=order, reverse=not forward)
            if (start := request.get("ExclusiveStartKey")) is not None:
                if set(start) != {*keys}:
                    refuse(name, "ValidationException", "The provided starting key is invalid")
                found = [one for one in found if (order(one) > order(start) if forward else order(one) < order(start))]
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", str(error)) from None
        read = found[: request.get("Limit")]
        ends = accumulate(len(repr(item)) for item in read)  # about as many bytes as DynamoDB counts
        read = read[: max(1, sum(end <= LARGEST_PAGE for end in ends))]
        kept = [item for item in read if passes(item)]
        page: dict[str, Any] = {"Count": len(kept), "ScannedCount": len(read)}
        if request.get("Select") != "COUNT":
            page["Items"] = self._projected(kept, wanted)
        # With a limit, DynamoDB stops at the last item without looking whether another follows.
        if len(read) == request.get("Limit") or len(read) < len(found):
            page["LastEvaluatedKey"] = {key: read[-1][key] for key in keys}
        return answer(page)

    def _projected(self, items: Sequence[TypedItem], wanted: Sequence[Path] | None) -> list[TypedItem]:
        return [dict(item) if wanted is None else project(item, wanted) for item in items]

    def _index(self, name: str, table: TableSchema, request: Mapping[str, Any]) -> Index | None:
        if "IndexName" not in request:
            return None
        index = table.indexes.get(request["IndexName"])
        if index is None:
            refuse(name, "ValidationException", f"The table does not have the specified index: {request['IndexName']}")
        if index.is_global and request.get("ConsistentRead"):
            refuse(name, "ValidationException", "Consistent reads are not supported on global secondary indexes")
        return index


def _projection(request: Mapping[str, Any], scope: Scope, expressions: list[Parsed[Any]]) -> list[Path] | None:
    """Return the paths of a request's projection, and add it to the `expressions`; None without one.

    Raises `InvalidExpression`.
    """
    if "ProjectionExpression" not in request:
        return None
    parsed = parse_projection(request["ProjectionExpression"])
    expressions.append(parsed)
    paths = [path.path(scope) for path in parsed.said]
    refuse_overlaps(paths)
    return paths


def _expressions(
    name: str, table: TableSchema, index: Index | None, request: Mapping[str, Any]
) -> tuple[Keep, Keep, Sequence[Path] | None]:
    """Return which items a read selects, which of them pass its filter, and the paths that it returns (None for all)."""
    scope, expressions = Scope(request), list[Parsed[Any]]()
    keys = table.keys if index is None else index.keys
    conditions: dict[str, Expression] = {}
    for parameter in ("KeyConditionExpression", "FilterExpression"):
        if parameter in request or (name == "Query" and parameter == "KeyConditionExpression"):
            parsed = checked_condition(request.get(parameter, ""), scope)
            expressions.append(parsed)
            conditions[parameter] = parsed.said
    selecting, filtering = conditions.get("KeyConditionExpression"), conditions.get("FilterExpression")
    if selecting is not None:
        _check_key_condition(table, keys, selecting, scope)
        if filtering is not None and any(path[0] in keys for path in paths_of(filtering, scope)):
            raise InvalidExpression("Filter Expression can only contain non-primary key attributes")
    wanted = _returned(table, index, request.get("Select"), _projection(request, scope, expressions))
    refuse_unused(request, expressions)

    def selects(item: TypedItem) -> bool:
        return all(key in item for key in keys) and (selecting is None or selecting.read(item, scope))

    return selects, lambda item: filtering is None or filtering.read(item, scope), wanted


def _check_key_condition(table: TableSchema, keys: Sequence[str], tree: Expression, scope: Scope) -> None:
    """Raise `InvalidExpression` for anything but `=` on the partition key and at most one condition on the sort key."""
    by_name: dict[str, Operation] = {}
    for part in _parts(tree):
        name = _key_of(part, scope)
        if name in by_name:
            raise InvalidExpression("KeyConditionExpressions must only contain one condition per key")
        by_name[name] = part
    partition = by_name.pop(keys[0], None)
    if partition is None:
        raise InvalidExpression(f"Query condition missed key schema element: {keys[0]}")
    if partition.name != "=":
        raise InvalidExpression("Query key condition not supported")
    if not by_name.keys() <= {*keys[1:]}:
        raise InvalidExpression(f"Query condition missed key schema element: {keys[-1]}")
    kind = partition.operands[1].type(scope)
    if kind != table.types.get(keys[0], kind):
        raise InvalidExpression(f"{INVALID}Condition parameter type does not match schema type")


def _parts(tree: Expression) -> Iterator[Operation]:
    """Yield the simple conditions that AND joins."""
    if isinstance(tree, Operation) and tree.name == "AND":
        for part in tree.operands:
            yield from _parts(part)
    elif isinstance(tree, Operation) and tree.name in ("=", *COMPARATORS, "BETWEEN", "begins_with"):
        yield tree
    else:
        raise InvalidExpression("Invalid operator used in KeyConditionExpression")


def _key_of(condition: Operation, scope: Scope) -> str:
    """Return the attribute that a simple condition with values compares."""
    first, *others = condition.operands
    if not isinstance(first, PathOperand) or not all(isinstance(other, ValueOperand) for other in others):
        raise InvalidExpression(
            "Invalid condition in KeyConditionExpression: an attribute, an operator and values needed"
        )
    path = first.path(scope)
    if len(path) > 1:
        raise InvalidExpression("KeyConditionExpressions cannot have conditions on nested attributes")
    return str(path[0])


def _returned(
    table: TableSchema, index: Index | None, select: str | None, paths: Sequence[Path] | None
) -> Sequence[Path] | None:
    """Return the paths that a read returns; None for whole items. `paths`: those of its projection."""
    held = None if index is None or index.projected is None else {*table.keys, *index.keys, *index.projected}
    if paths is not None:
        if select not in (None, "SPECIFIC_ATTRIBUTES"):
            raise InvalidExpression(f"Cannot specify the ProjectionExpression when choosing to get {select}")
        if held is not None and index is not None and index.is_global and any(path[0] not in held for path in paths):
            raise InvalidExpression(f"{INVALID}the index does not project all of {paths}")
        return paths
    if select == "SPECIFIC_ATTRIBUTES" or (select == "ALL_PROJECTED_ATTRIBUTES" and index is None):
        raise InvalidExpression(f"{INVALID}Select type {select} does not fit the request")
    if held is None:
        return None
    if select == "ALL_ATTRIBUTES":
        if index is not None and index.is_global:
            raise InvalidExpression(
                "Select type ALL_ATTRIBUTES is not supported for an index whose projection is not ALL"
            )
        return None  # a local index reads the rest from its table
    return [(name,) for name in sorted(held)]


def _order(table: TableSchema, index: Index | None, *, whole: bool) -> Callable[[TypedItem], Any]:
    """Return the order of a page: by sort key, in a scan by partition first, in an index by the primary key last."""
    keys = table.keys if index is None else index.keys
    names = [*(keys if whole else keys[1:]), *(() if index is None else table.keys)]

    def order(item: TypedItem) -> Any:
        contents = []
        for name in names:
            ((kind, content),) = item[name].items()
            contents.append((kind, order_key(kind)(content)))
        return contents

    return order
