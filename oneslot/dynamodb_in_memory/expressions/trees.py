"""The trees of parsed expressions: operations on paths and values, in the scope of a request's names and values."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from oneslot.dynamodb_in_memory.expressions.paths import Path, find
from oneslot.dynamodb_in_memory.expressions.values import (
    COMPARATORS,
    TYPES,
    AttributeValue,
    InvalidExpression,
    TypedItem,
    added,
    appended,
    begins_with,
    contains,
    normalised,
    ordered,
    size,
    type_of,
)


class Scope:
    """`ExpressionAttributeNames` and `ExpressionAttributeValues` of one request, the values normalised on first use."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._names: Mapping[str, str] = request.get("ExpressionAttributeNames", {})
        self._raw: Mapping[str, AttributeValue] = request.get("ExpressionAttributeValues", {})
        self._values: dict[str, AttributeValue] = {}

    def name(self, placeholder: str) -> str:
        """Return the attribute that a `#` placeholder stands for."""
        if placeholder not in self._names:
            raise InvalidExpression(f"An expression attribute name is not defined: {placeholder}")
        return self._names[placeholder]

    def value(self, placeholder: str) -> AttributeValue:
        """Return the value that a `:` placeholder stands for."""
        known = self._values.get(placeholder)
        if known is None:
            if placeholder not in self._raw:
                raise InvalidExpression(f"An expression attribute value is not defined: {placeholder}")
            known = self._values[placeholder] = normalised(self._raw[placeholder])
        return known


class Expression(Protocol):
    """A condition, which is true or false of an item, or an operand, which has a value in an item."""

    def read(self, item: TypedItem, scope: Scope) -> Any:
        """Return whether a condition holds for `item` (empty: no item), or an operand's value; None if it is missing."""

    def type(self, scope: Scope) -> str | None:
        """Return CONDITION, or the type that the value has in every item; None if the item decides.

        Raises `InvalidExpression` for what DynamoDB refuses whatever the item is.
        """


@dataclass(frozen=True, slots=True)
class PathOperand:
    """A document path; `parts` are names, `#` placeholders and indexes."""

    parts: Path
    plain: bool

    def path(self, scope: Scope) -> Path:
        """Return the path with its placeholders resolved."""
        if self.plain:
            return self.parts
        if len(self.parts) == 1:
            return (scope.name(str(self.parts[0])),)
        return tuple(scope.name(part) if isinstance(part, str) and part[0] == "#" else part for part in self.parts)

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Expression`."""
        return find(item, self.path(scope))

    def type(self, scope: Scope) -> str | None:
        """See `Expression`."""
        self.path(scope)
        return None


@dataclass(frozen=True, slots=True)
class ValueOperand:
    """A `:` placeholder."""

    placeholder: str

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Expression`."""
        return scope.value(self.placeholder)

    def type(self, scope: Scope) -> str | None:
        """See `Expression`."""
        return next(iter(scope.value(self.placeholder)))


CONDITION = "condition"
"""What the operators of conditions give, beside the types of values."""


class _Operator(NamedTuple):
    """How an operator or a function is computed of its operands' values, one after another, what it gives, and takes."""

    compute: Callable[[Iterator[Any]], Any]
    gives: str | None = CONDITION
    takes: tuple[str, ...] = TYPES


def _of_all(compute: Callable[..., Any]) -> Callable[[Iterator[Any]], Any]:
    """Return a function of values that gives None, which does not hold, if one of them is missing."""

    def computed(values: Iterator[Any]) -> Any:
        given = [*values]
        return None if None in given else compute(*given)

    return computed


_ORDERED = ("S", "N", "B")
_OPERATORS: Mapping[str, _Operator] = {
    "AND": _Operator(all, takes=(CONDITION,)),
    "OR": _Operator(any, takes=(CONDITION,)),
    "NOT": _Operator(lambda values: not next(values), takes=(CONDITION,)),
    "=": _Operator(_of_all(operator.eq)),
    "<>": _Operator(lambda values: not _of_all(operator.eq)(values)),
    **{name: _Operator(_of_all(partial(ordered, name)), takes=_ORDERED) for name in COMPARATORS},
    "BETWEEN": _Operator(
        _of_all(lambda one, low, high: ordered(">=", one, low) and ordered("<=", one, high)), takes=_ORDERED
    ),
    "IN": _Operator(lambda values: (value := next(values)) is not None and value in values),
    "attribute_exists": _Operator(lambda values: next(values) is not None),
    "attribute_not_exists": _Operator(lambda values: next(values) is None),
    "attribute_type": _Operator(_of_all(lambda value, kind: type_of(value) == kind["S"])),
    "begins_with": _Operator(_of_all(begins_with), takes=("S", "B")),
    "contains": _Operator(_of_all(contains)),
    "size": _Operator(_of_all(size), "N", ("S", "B", "SS", "NS", "BS", "L", "M")),
    "if_not_exists": _Operator(lambda values: next((one for one in values if one is not None), None), None),
    "list_append": _Operator(_of_all(appended), "L", ("L",)),
    "+": _Operator(_of_all(added), "N", ("N",)),
    "-": _Operator(_of_all(partial(added, sign=-1)), "N", ("N",)),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or a function with its operands, such as `left <= right`, `NOT condition` or `size(operand)`."""

    name: str
    operands: tuple[Expression, ...]

    def read(self, item: TypedItem, scope: Scope) -> Any:
        """See `Expression`."""
        return _OPERATORS[self.name].compute(operand.read(item, scope) for operand in self.operands)

    def type(self, scope: Scope) -> str | None:
        """See `Expression`."""
        name, (_, gives, takes) = self.name, _OPERATORS[self.name]
        for operand in self.operands:
            kind = operand.type(scope)
            if kind is not None and kind not in takes:
                raise InvalidExpression(f"{INCORRECT_TYPE} operator: {name}, operand type: {kind}")
        if name in _OF_DISTINCT:
            paths = [operand.path(scope) for operand in self.operands if isinstance(operand, PathOperand)]
            if len(set(paths)) < len(paths):
                raise InvalidExpression(
                    f"The first operand must be distinct from the remaining operands; operator: {name}"
                )
        elif name in ("attribute_type", "BETWEEN"):
            values = [scope.value(one.placeholder) for one in self.operands[1:] if isinstance(one, ValueOperand)]
            if name == "attribute_type" and values[0].get("S") not in TYPES:
                raise InvalidExpression(f"Invalid attribute type name found; valid types: {TYPES}")
            if name == "BETWEEN" and len(values) > 1 and not ordered("<=", *values):
                raise InvalidExpression("The BETWEEN operator requires an upper bound of the same type, and not less")
        return gives


INCORRECT_TYPE = "Incorrect operand type for operator or function;"
_OF_DISTINCT = ("=", "<>", *COMPARATORS, "begins_with", "contains")


def is_condition(expression: Expression) -> bool:
    """Return whether an expression is true or false of an item."""
    return isinstance(expression, Operation) and _OPERATORS[expression.name].gives == CONDITION


def required(operand: Expression, item: TypedItem, scope: Scope) -> AttributeValue:
    """Return an operand's value in an item that must have it."""
    value: AttributeValue | None = operand.read(item, scope)
    if value is None:
        raise InvalidExpression("The provided expression refers to an attribute that does not exist in the item")
    return value


def paths_of(expression: Expression, scope: Scope) -> Iterator[Path]:
    """Yield the paths that an expression reads."""
    if isinstance(expression, PathOperand):
        yield expression.path(scope)
    for operand in expression.operands if isinstance(expression, Operation) else ():
        yield from paths_of(operand, scope)
