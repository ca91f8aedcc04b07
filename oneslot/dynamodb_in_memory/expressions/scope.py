"""The names and values that a request defines for its expressions, and the operands that use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from oneslot.dynamodb_in_memory.expressions.paths import Path, find
from oneslot.dynamodb_in_memory.expressions.values import (
    AttributeValue,
    InvalidExpression,
    InvalidUpdate,
    TypedItem,
    added,
    normalised,
    size,
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
class ListAppend:
    """`list_append(operand, operand)`."""

    first: Operand
    second: Operand

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        first, second = required(self.first, item, scope), required(self.second, item, scope)
        if "L" not in first or "L" not in second:
            raise InvalidUpdate("An operand in the update expression has an incorrect data type")
        return {"L": [*first["L"], *second["L"]]}

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        _refuse_other_types("list_append", "L", (self.first, self.second), scope)
        return "L"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of two operands, or their difference if `sign` is -1."""

    left: Operand
    right: Operand
    sign: int

    def read(self, item: TypedItem, scope: Scope) -> AttributeValue | None:
        """See `Operand`."""
        return added(required(self.left, item, scope), required(self.right, item, scope), self.sign)

    def type(self, scope: Scope) -> str | None:
        """See `Operand`."""
        _refuse_other_types("+" if self.sign > 0 else "-", "N", (self.left, self.right), scope)
        return "N"


def required(operand: Operand, item: TypedItem, scope: Scope) -> AttributeValue:
    """Return an operand's value in an item that must have it."""
    value = operand.read(item, scope)
    if value is None:
        raise InvalidUpdate("The provided expression refers to an attribute that does not exist in the item")
    return value


def _refuse_other_types(name: str, wanted: str, operands: tuple[Operand, ...], scope: Scope) -> None:
    for operand in operands:
        if operand.type(scope) not in (wanted, None):
            raise InvalidExpression(f"Incorrect operand type for operator or function; operator or function: {name}")
