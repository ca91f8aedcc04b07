"""A write as DynamoDB takes it: one element of `TransactItems`, in typed attribute values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from oneslot.runtime.effects import (
    BuiltCondition,
    Check,
    Delete,
    Expected,
    InvalidContent,
    InvalidEffects,
    Item,
    Path,
    Put,
    Raw,
    Update,
    Write,
)
from oneslot.runtime.stores.paths import built_path, path_of
from oneslot.runtime.stores.repeats import expression_repeats, repeats
from oneslot.runtime.values import InvalidValue, number_text, shown_name, size, to_attribute, to_attributes

Keys = Mapping[str, tuple[str, ...]]
"""The names of a table's key attributes, the partition key first, by the table's logical name."""

KEY_PREFIX = "ONESLOT_KEY_"
"""The variable `ONESLOT_KEY_SHOP` names the key of the table that a decision calls "shop", such as `customer,order`."""


_SETS = ("SS", "NS", "BS")

_MOST_OPERANDS = 100
"""Of `IN`, by DynamoDB's quotas."""

_NO_CONDITION = "has no condition"
_CHANGES_AGAIN = "changes what it finds, and its condition may still hold then"


@dataclass(frozen=True, slots=True)
class Element:
    """One element of `TransactItems`.

    Attributes:
        kind: its name there, such as `Put`.
        key: the item's key, in typed values.
        request: its content, without the table.
        left: about how many bytes the write leaves in the item.
        named: about how many more bytes the request names.
        repeats: why a second run of the write could do more than the first; empty if its condition prevents it.
        changed, expected: how many attributes it changes, and on how many it relies.
    """

    kind: str
    key: Mapping[str, Any]
    request: Mapping[str, Any]
    left: int
    named: int = 0
    repeats: str = ""
    changed: int = 0
    expected: int = 0

    @property
    def expressions(self) -> tuple[str, str]:
        """The update and the condition, as DynamoDB's language has them."""
        return self.request.get("UpdateExpression", ""), self.request.get("ConditionExpression", "")


def declared_keys(keys: Mapping[str, str | tuple[str, ...]] | None) -> dict[str, tuple[str, ...]]:
    """Return the key of each table as the names of its attributes. Raises `ValueError` for what is no key."""
    named = {table: (key,) if isinstance(key, str) else tuple(key) for table, key in (keys or {}).items()}
    for table, names in named.items():
        if not (0 < len({*names}) == len(names) <= 2 and all(names)):  # noqa: PLR2004 - a partition key and a sort key
            raise ValueError(
                f'the key of {table!r} must be one name, or two for a partition key and a sort key: ("customer", "order")'
            )
    return named


def element(write: Write, keys: Keys) -> Element:
    """Return the write as an element.

    Raises:
        InvalidEffects: for a key that is not the table's, and for names and values that DynamoDB refuses.
    """
    try:
        match write:
            case Put():
                return _put(write, keys)
            case Update():
                return _update(write, keys)
            case Raw():
                return _raw(write, keys)
            case Delete() | Check():
                return _delete_or_check(write, keys)
    except InvalidValue as error:
        what = f"{error.place!r} in {write.table!r}" if error.path else f"a write to {write.table!r}"
        text = f"{what} {error.problem}"
        raise (InvalidContent(text) if error.of_content else InvalidEffects(text)) from None


def transact_items(writes: Iterable[Write], tables: Mapping[str, str], keys: Keys) -> list[dict[str, Any]]:
    """Return the writes as `TransactItems`; `tables` maps logical names to real ones."""
    writes = list(writes)
    return items_of([element(write, keys) for write in writes], [tables[write.table] for write in writes])


def items_of(elements: Iterable[Element], tables: Iterable[str]) -> list[dict[str, Any]]:
    """Return elements, each with its table's real name, as `TransactItems`.

    A refusal returns the item found (`ALL_OLD`), so that no further read is needed to explain it.
    """
    return [
        {each.kind: {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **each.request}}
        for each, table in zip(elements, tables, strict=True)
    ]


def describe(write: Write) -> str:
    """Return the write's kind and table, for an error."""
    match write:
        case Put():
            return f"a put into {write.table!r}"
        case Update():
            return f"an update of {write.table!r}"
        case Delete():
            return f"a delete in {write.table!r}"
        case Check():
            return f"a check of {write.table!r}"
        case Raw():
            return f"a raw write to {write.table!r}"


def key_of(write: Write, keys: Keys) -> Item:
    """Return the names and values of the written item's key; of `Raw` the values are typed.

    Raises:
        InvalidEffects: if it is not the key of its table, or the table's key is not declared and the write needs it.
    """
    names = keys.get(write.table)
    match write:
        case Put():
            return _key_in(write, write.item, names or (write.key,) if names or write.key else None, write.key)
        case Raw() if "Item" in write.request:
            return _key_in(write, write.request["Item"], names)
    key = write.request.get("Key", {}) if isinstance(write, Raw) else write.key
    if not key:
        raise InvalidEffects(f"{describe(write)} has no key; name the item's key attributes in `key`")
    if names is not None and {*key} != {*names}:
        raise InvalidEffects(_other_key(write.table, key, names))
    return key


def _key_in(write: Write, item: Item, names: tuple[str, ...] | None, named: str = "") -> Item:
    if names is None:
        raise InvalidEffects(
            f"the key of {write.table!r} is not declared, and {describe(write)} needs its name; declare it where the "
            f'table is: keys={{"{write.table}": "id"}}, or the variable {KEY_PREFIX}{write.table.upper()}'
        )
    if named and named not in names:
        raise InvalidEffects(_other_key(write.table, (named,), names))
    if missing := [name for name in names if name not in item]:
        raise InvalidEffects(
            f"{describe(write)} has no attribute {missing[0]!r} in its item, which is in the table's key; add it"
        )
    return {name: item[name] for name in names}


def _other_key(table: str, named: Iterable[object], names: tuple[str, ...]) -> str:
    return (
        f"{table!r} is written under the key {' and '.join(sorted(map(str, named)))}, and its key is "
        f"{' and '.join(names)}; name all of it"
    )


def _put(put: Put, keys: Keys) -> Element:
    key, item, words = key_of(put, keys), to_attributes(put.item), _Expressions(put)
    condition = words.condition(put.expect) if put.replace else f"attribute_not_exists({words.path(next(iter(key)))})"
    return Element(
        "Put",
        {name: item[name] for name in key},
        {"Item": item, **words.request(ConditionExpression=condition)},
        _size(item),
        words.named,
        "" if condition else "replaces whatever item is there",
        expected=words.expected,
    )


def _update(update: Update, keys: Keys) -> Element:
    key, words = to_attributes(key_of(update, keys)), _Expressions(update)
    change, left = words.changes(update)
    _refuse_overlaps(update, key)
    condition = words.condition(update.expect)
    # To set or remove whole attributes does no more in a second run.
    may_repeat = update.add or update.append or "[" in change
    again = _CHANGES_AGAIN if may_repeat and repeats(update) else ""
    request = {"Key": key, **words.request(UpdateExpression=change, ConditionExpression=condition)}
    changed = len(update.set) + len(update.remove) + len(update.add) + len(update.append)
    left += _size(key)
    return Element(
        "Update", key, request, left, words.named, again if condition else _NO_CONDITION, changed, words.expected
    )


def _delete_or_check(write: Delete | Check, keys: Keys) -> Element:
    key, words = to_attributes(key_of(write, keys)), _Expressions(write)
    request = {"Key": key, **words.request(ConditionExpression=words.condition(write.expect))}
    deletes = isinstance(write, Delete)
    again = "deletes whatever item is there" if deletes and "ConditionExpression" not in request else ""
    kind = "Delete" if deletes else "ConditionCheck"
    return Element(kind, key, request, _size(key), words.named, again, expected=words.expected)


def _raw(raw: Raw, keys: Keys) -> Element:
    ((kind, request),) = raw.element.items()
    key = {name: _one_spelling(name, value) for name, value in key_of(raw, keys).items()}
    values = request.get("ExpressionAttributeValues", {})
    left = _size(request.get("Item", key))
    again = _CHANGES_AGAIN if expression_repeats(request.get("UpdateExpression", "")) else ""
    content = {name: value for name, value in request.items() if name != "TableName"}
    return Element(
        kind, key, content, left, _size(values), again if "ConditionExpression" in request else _NO_CONDITION
    )


def _one_spelling(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a key's typed value as the other words write it, so that two writes on one item are found."""
    match value:
        case {"N": str(text)}:
            try:
                return {"N": number_text(Decimal(text))}
            except InvalidOperation:
                raise InvalidEffects(f"the key {shown_name(name)!r} of a raw write is no number") from None
        case {"B": str(text)}:  # boto3 sends its bytes
            return {"B": text.encode()}
        case {"B": bytearray(content)}:
            return {"B": bytes(content)}
    return value


class _Expressions:
    """The expressions of one write.

    Placeholders are numbered, because names may hold what a placeholder must not.

    Attributes:
        named: the bytes of names and values that the request holds and that do not stay in the item.
        expected: on how many attributes the write relies.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self.named = 0
        self.expected = 0

    def request(self, **expressions: str) -> dict[str, Any]:
        """Return the expressions that say something, with the names and values that they use."""
        found: dict[str, Any] = {name: text for name, text in expressions.items() if text}
        if self._names:
            found["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in self._names.items()}
        if self._values:
            found["ExpressionAttributeValues"] = self._values
        return found

    def path(self, path: str | Path) -> str:
        """Return an attribute's name or path as an expression has it."""
        text = ""
        for step in path_of(path):
            text += f"[{step}]" if isinstance(step, int) else f".{self._name(step)}"
        return text[1:]

    def condition(self, expected: Expected | None) -> str:
        """Return the condition; empty for none."""
        if expected is None:
            return ""
        if not isinstance(expected, Mapping):
            return self._built(expected)
        pairs = _typed(expected)
        self.expected += len(pairs)
        self.named += _sizes(pairs)
        return " AND ".join(f"{self.path(path)} = {self._value(value)}" for _, path, value in pairs)

    def changes(self, update: Update) -> tuple[str, int]:
        """Return the update expression, and the bytes that it leaves in the item."""
        sets, adds, appends = (_typed(part) for part in (update.set, update.add, update.append))
        removed = _typed(dict.fromkeys(update.remove))
        self._refuse_others("add", adds, ("N", *_SETS), "a number or a set")
        self._refuse_others("append", appends, ("L",), "a list")
        assignments = [f"{self.path(path)} = {self._value(value)}" for _, path, value in sets]
        if appends:
            empty = self._value({"L": []})
            for _, path, value in appends:
                name = self.path(path)
                assignments.append(f"{name} = list_append(if_not_exists({name}, {empty}), {self._value(value)})")
        clauses = {
            "SET": assignments,
            "REMOVE": [self.path(path) for _, path, _ in removed],
            "ADD": [f"{self.path(path)} {self._value(value)}" for _, path, value in adds],
        }
        self.named += _sizes(removed)
        left = sum(_sizes(part) for part in (sets, adds, appends))
        return " ".join(f"{name} {', '.join(parts)}" for name, parts in clauses.items() if parts), left

    def _refuse_others(self, word: str, typed: Iterable[tuple[str, Any, Any]], kinds: Iterable[str], what: str) -> None:
        for name, _, value in typed:
            if not {*value} & {*kinds}:
                raise InvalidEffects(f"{name!r} in {self._write.table!r} is given to `{word}`, which takes {what}")

    def _name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def _value(self, typed: Any) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = typed
        return placeholder

    def _built(self, condition: BuiltCondition) -> str:
        """Return a condition of boto3's as text. boto3 itself is not needed for that."""
        expression = condition.get_expression()
        grouped = getattr(condition, "has_grouped_values", False)
        name = next((each.name for each in expression["values"] if hasattr(each, "name")), "expect")
        operands = [self._operand(each, name, grouped) for each in expression["values"]]
        if expression["operator"] == "begins_with":
            start = expression["values"][1]
            if not hasattr(start, "name") and not {*to_attribute(start, 1)} & {"S", "B"}:
                raise InvalidEffects(
                    f"{name!r} in {self._write.table!r} is given to `begins_with`, which takes text or bytes"
                )
        return str(expression["format"]).format(*operands, operator=expression["operator"])

    def _operand(self, operand: Any, name: str, grouped: bool) -> str:
        if hasattr(operand, "get_expression"):
            return self._built(operand)
        if hasattr(operand, "name"):  # Attr, and Key
            path = self.path(built_path(operand.name))
            self.expected += 1
            self.named += len(operand.name)
            return path
        if grouped:  # the values of `is_in`
            listed = [self._operand(each, name, grouped=False) for each in operand]
            if not 0 < len(listed) <= _MOST_OPERANDS:
                raise InvalidContent(
                    f"{name!r} in {self._write.table!r} is given to `is_in` with {len(listed)} values, "
                    f"which takes 1 to {_MOST_OPERANDS}"
                )
            return f"({', '.join(listed)})"
        typed = to_attributes({name: operand})[name]
        self.named += _size({"": typed})
        return self._value(typed)


def _refuse_overlaps(update: Update, key: Item) -> None:
    """Raise `InvalidEffects` if the update writes its key, or one attribute twice, or one within another."""
    written = [
        path if isinstance(path, tuple) else (path,)
        for path in (*update.set, *update.remove, *update.add, *update.append)
    ]
    above = {path[:length] for path in written for length in range(1, len(path))}
    twice = {path for path, count in Counter(written).items() if count > 1}
    if wrong := {str(path[0]) for path in written if path[0] in key or path in above or path in twice}:
        raise InvalidEffects(
            f"{describe(update)} changes its key, or sets and removes one attribute: {', '.join(sorted(wrong))}; "
            "DynamoDB refuses that"
        )


_Typed = list[tuple[str, "str | Path", Any]]
"""Attributes, each with its name for an error, its path, and its typed value."""


def _typed(attributes: Mapping[Any, Any]) -> _Typed:
    paths: dict[str, str | Path] = {}
    for path in attributes:
        if isinstance(path, str) and ("." in path or "[" in path):
            raise InvalidEffects(
                f"{path!r} is a path or a name; write a tuple: ('address', 'city') for city in address, and "
                "('a.b',) for an attribute with a dot in its name"
            )
        if isinstance(path, tuple):
            path_of(path)
        name = ".".join(map(str, path)) if isinstance(path, tuple) else path
        if name in paths:
            raise InvalidEffects(f"{name!r} is written twice, as a path and as a name; write it once")
        paths[name] = path
    typed = to_attributes({name: attributes[path] for name, path in paths.items()})  # all in one call, not one for each
    return [(name, path, typed[name]) for name, path in paths.items()]


def _sizes(typed: _Typed) -> int:
    return _size({name: value for name, _, value in typed})


def _size(attributes: Mapping[str, Any]) -> int:
    """Return the bytes of attributes, without what DynamoDB adds for a mapping: three, and one for each entry."""
    return size({"M": attributes}) - 3 - len(attributes)
