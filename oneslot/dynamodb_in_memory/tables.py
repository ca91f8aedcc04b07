"""The tables of the stand-in, and what every operation on an item checks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oneslot.dynamodb_in_memory.answers import client_error, refuse
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.dynamodb_in_memory.expressions.parser import Parsed, parse_condition
from oneslot.dynamodb_in_memory.expressions.trees import Expression, Scope
from oneslot.dynamodb_in_memory.expressions.values import (
    AttributeValue,
    InvalidExpression,
    TypedItem,
    normalised,
    type_of,
)

MAXIMUM_TRANSACTION_ITEMS = 100
"""The limit of TransactGetItems and TransactWriteItems (API reference)."""
INVALID = "One or more parameter values were invalid: "


class StoredTables:
    """The tables and their items.

    `now_ms` is the clock (epoch ms), used only for the tokens of transactions. `depends_on_time` is called when a
    token's age decides the answer.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        tables: Mapping[str, TableSchema] | None = None,
        contents: Contents | None = None,
        depends_on_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._now_ms, self._depends_on_time = now_ms, depends_on_time
        self.tables = dict(tables or {})
        self.contents = contents or Contents({name: {} for name in self.tables})

    def _table(self, name: str, request: Mapping[str, Any]) -> TableSchema:
        table = self.tables.get(request["TableName"])
        if table is None:
            refuse(name, "ResourceNotFoundException", "Requested resource not found")
        return table

    def _items(self, request: Mapping[str, Any]) -> dict[str, TypedItem]:
        return self.contents.tables[request["TableName"]]

    def _store(self, table_name: str, key: str, after: TypedItem | None) -> None:
        if after is None:
            self.contents.tables[table_name].pop(key, None)
        else:
            self.contents.tables[table_name][key] = after

    def _key(self, name: str, table: TableSchema, key: TypedItem) -> TypedItem:
        """Return a request's key, normalised, or raise its refusal."""
        try:
            return checked_key(table, key)
        except InvalidExpression as error:
            raise client_error(name, "ValidationException", str(error)) from None


def checked_key(table: TableSchema, key: TypedItem) -> TypedItem:
    """Return a key in its normal form. Raises `InvalidExpression` if it is not a key of this table."""
    key = {name: normalised(value) for name, value in key.items()}
    if set(key) != set(table.keys) or any(type_of(value) not in _types(table, name) for name, value in key.items()):
        raise InvalidExpression("The provided key element does not match the schema")
    _refuse_keys(table, table.keys, key)
    return key


def checked_item(table: TableSchema, item: TypedItem) -> TypedItem:
    """Return an item in its normal form. Raises `InvalidExpression` if the table cannot hold it."""
    item = {name: normalised(value) for name, value in item.items()}
    for name in table.keys:
        if name not in item:
            raise InvalidExpression(f"{INVALID}Missing the key {name} in the item")
    _refuse_keys(table, table.keys, item)
    return item


def refuse_index_keys(table: TableSchema, item: TypedItem) -> None:
    """Raise `InvalidExpression` for an item whose attributes do not fit as the keys of an index."""
    for name, index in table.indexes.items():
        _refuse_keys(table, index.keys, item, f"Index Key {{}} Expected: {{}} Actual: {{}} IndexName: {name}")


def _types(table: TableSchema, name: str) -> tuple[str, ...]:
    return (table.types[name],) if name in table.types else ("S", "N", "B")


def _refuse_keys(
    table: TableSchema, names: Iterable[str], item: TypedItem, mismatch: str = "key {} expected: {} actual: {}"
) -> None:
    """Raise `InvalidExpression` for a key of another type, or for an empty text or binary as a key."""
    for name in names:
        for actual, content in item.get(name, {}).items():
            expected = _types(table, name)
            if actual not in expected:
                said = mismatch.format(name, " or ".join(expected), actual)
                raise InvalidExpression(f"{INVALID}Type mismatch for {said}")
            if not content:
                raise InvalidExpression(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an "
                    f"empty string value. Key: {name}"
                )


def checked_condition(text: str, scope: Scope) -> Parsed[Expression]:
    """Return a parsed condition. Raises `InvalidExpression` for what is invalid whatever the item is."""
    parsed = parse_condition(text)
    parsed.said.type(scope)
    return parsed


def refuse_unused(request: Mapping[str, Any], expressions: Iterable[Parsed[Any]]) -> None:
    """Raise `InvalidExpression` for a defined name or value that none of the expressions uses."""
    expressions = list(expressions)
    for field in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if field not in request:
            continue
        defined: Mapping[str, AttributeValue | str] = request[field]
        if not expressions:
            raise InvalidExpression(f"{field} can only be specified when using expressions")
        if not defined:
            raise InvalidExpression(f"{field} must not be empty")
        for name in defined:
            if not any(name in parsed.placeholders for parsed in expressions):
                raise InvalidExpression(f"Value provided in {field} unused in expressions: keys: {{{name}}}")
