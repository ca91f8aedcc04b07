"""The trees of parsed expressions: operands and conditions, in the scope of a request's names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from oneslot.dynamodb_in_memory.expressions.paths import Path, find
from oneslot.dynamodb_in_memory.expressions.values import (
    COMPARATORS,
    TYPES,
    AttributeValue,
    InvalidExpression,
    InvalidUpdate,
    TypedItem,
    added,
    appended,
    begins_with,
    contains,
    equal,
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


class Operand(Protocol):
    """A part of an expression that has a value in an item."""

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """Return the value in this item; None if it is missing."""

    def type(self, scope: Scope) -> str | None:
        """Return the type that the value has in every item; None if the item decides."""


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
        """See `Operand`."""
        return find(item, self.path(scope))

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        self.path(scope)
        return None


@dataclass(frozen=True, slots=True)
class ValueOperand:
    """A `:` placeholder."""

    placeholder: str

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        return scope.value(self.placeholder)

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        return next(iter(scope.value(self.placeholder)))


@dataclass(frozen=True, slots=True)
class SizeOf:
    """`size(operand)`."""

    operand: Operand

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        return size(self.operand.read(item, scope))

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        if self.operand.type(scope) in ("N", "BOOL", "NULL"):
            raise InvalidExpression("Incorrect operand type for operator or function; operator or function: size")
        return "N"


@dataclass(frozen=True, slots=True)
class IfNotExists:
    """`if_not_exists(path, operand)`."""

    path: PathOperand
    otherwise: Operand

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        found = self.path.read(item, scope)
        return self.otherwise.read(item, scope) if found is None else found

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        self.path.type(scope)
        self.otherwise.type(scope)
        return None


@dataclass(frozen=True, slots=True)
class Computed:
    """A sum, a difference, or two lists as one: "+", "-" or "list_append" of two operands."""

    name: str
    left: Operand
    right: Operand

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        _, compute = _COMPUTED[self.name]
        return compute(required(self.left, item, scope), required(self.right, item, scope))

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        kind, _ = _COMPUTED[self.name]
        if any(operand.type(scope) not in (kind, None) for operand in (self.left, self.right)):
            raise InvalidExpression(f"{INCORRECT_TYPE} operator or function: {self.name}")
        return kind


_COMPUTED: Mapping[str, tuple[str, Callable[[AttributeValue, AttributeValue], AttributeValue]]] = {
    "+": ("N", added),
    "-": ("N", lambda left, right: added(left, right, -1)),
    "list_append": ("L", appended),
}
"""The type of the operands and of the result, and how it is computed."""


def required(operand: Operand, item: TypedItem, scope: Scope) -> AttributeValue:
    """Return an operand's value in an item that must have it."""
    value = operand.read(item, scope)
    if value is None:
        raise InvalidUpdate("The provided expression refers to an attribute that does not exist in the item")
    return value


class ConditionNode(Protocol):
    """A condition, or a part of one."""

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """Return whether the condition holds for `item` (empty: no item)."""

    def check(self, scope: Scope) -> None:
        """Raise `InvalidExpression` for what DynamoDB refuses whatever the item is."""

    def tests(self) -> Iterator[Test]:
        """Yield the tests of operands."""


@dataclass(frozen=True, slots=True)
class Both:
    """`left AND right`, or with `either` `left OR right`."""

    left: ConditionNode
    right: ConditionNode
    either: bool

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        if self.either:
            return self.left.holds(item, scope) or self.right.holds(item, scope)
        return self.left.holds(item, scope) and self.right.holds(item, scope)

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        self.left.check(scope)
        self.right.check(scope)

    def tests(self) -> Iterator[Test]:
        """See `ConditionNode`."""
        yield from self.left.tests()
        yield from self.right.tests()


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT condition`."""

    condition: ConditionNode

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        return not self.condition.holds(item, scope)

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        self.condition.check(scope)

    def tests(self) -> Iterator[Test]:
        """See `ConditionNode`."""
        yield from self.condition.tests()


@dataclass(frozen=True, slots=True)
class Test:
    """A comparator or a function with its operands, such as `left <= right` or `begins_with(operand, start)`."""

    name: str
    operands: tuple[Operand, ...]

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        return _HOLDS[self.name](*[operand.read(item, scope) for operand in self.operands])

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        kinds = [operand.type(scope) for operand in self.operands]
        paths = [operand.path(scope) for operand in self.operands if isinstance(operand, PathOperand)]
        if self.name not in ("BETWEEN", "IN") and len(set(paths)) < len(paths):
            raise InvalidExpression(
                f"The first operand must be distinct from the remaining operands; operator: {self.name}"
            )
        for kind in kinds:
            if kind not in (None, *_ALLOWED.get(self.name, TYPES)):
                raise InvalidExpression(f"{INCORRECT_TYPE} operator: {self.name}, operand type: {kind}")
        values = [scope.value(one.placeholder) for one in self.operands[1:] if isinstance(one, ValueOperand)]
        if self.name == "attribute_type" and values[0].get("S") not in TYPES:
            raise InvalidExpression(f"Invalid attribute type name found; valid types: {TYPES}")
        if self.name == "BETWEEN" and len(values) > 1 and not ordered("<=", *values):
            raise InvalidExpression("The BETWEEN operator requires an upper bound of the same type, and not less")

    def tests(self) -> Iterator[Test]:
        """See `ConditionNode`."""
        yield self


INCORRECT_TYPE = "Incorrect operand type for operator or function;"
_ALLOWED = {**dict.fromkeys((*COMPARATORS, "BETWEEN"), ("S", "N", "B")), "begins_with": ("S", "B")}
"""The types of operands, where not every type may be compared."""
_HOLDS: Mapping[str, Callable[..., bool]] = {
    "=": equal,
    "<>": lambda left, right: not equal(left, right),
    **{name: partial(ordered, name) for name in COMPARATORS},
    "BETWEEN": lambda value, low, high: ordered(">=", value, low) and ordered("<=", value, high),
    "IN": lambda value, *choices: any(equal(value, choice) for choice in choices),
    "attribute_exists": lambda value: value is not None,
    "attribute_not_exists": lambda value: value is None,
    "attribute_type": lambda value, kind: value is not None and type_of(value) == kind["S"],
    "begins_with": begins_with,
    "contains": contains,
}
"""Whether a test holds, by the values of its operands; None is a missing one."""


def paths_of(condition: ConditionNode, scope: Scope) -> Iterator[Path]:
    """Yield the paths that a condition reads."""
    for operand in (one for test in condition.tests() for one in test.operands):
        inner = getattr(operand, "operand", operand)  # `size` of an operand
        if isinstance(inner, PathOperand):
            yield inner.path(scope)
