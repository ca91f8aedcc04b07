"""Conditions as trees. Each node checks itself against a request's names and values, and then holds for an item or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from oneslot.dynamodb_in_memory.expressions.paths import Path
from oneslot.dynamodb_in_memory.expressions.scope import Operand, PathOperand, Scope, ValueOperand
from oneslot.dynamodb_in_memory.expressions.values import (
    TYPES,
    InvalidExpression,
    TypedItem,
    begins_with,
    contains,
    equal,
    ordered,
    type_of,
)


class ConditionNode(Protocol):
    """A node."""

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """Return whether the condition holds for `item` (empty: no item)."""

    def check(self, scope: Scope) -> None:
        """Raise `InvalidExpression` for what DynamoDB refuses whatever the item is."""

    def operands(self) -> Iterator[Operand]:
        """Yield the operands."""


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

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from self.left.operands()
        yield from self.right.operands()


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

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from self.condition.operands()


@dataclass(frozen=True, slots=True)
class PathExists:
    """`attribute_exists(path)`, or `attribute_not_exists(path)` if not `wanted`."""

    path: PathOperand
    wanted: bool

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        return (self.path.read(item, scope) is not None) == self.wanted

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        self.path.path(scope)

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield self.path


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left comparator right`."""

    left: Operand
    comparator: str
    right: Operand

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        left, right = self.left.read(item, scope), self.right.read(item, scope)
        if self.comparator == "=":
            return equal(left, right)
        if self.comparator == "<>":
            return not equal(left, right)
        return ordered(self.comparator, left, right)

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        types = self.left.type(scope), self.right.type(scope)
        _refuse_same_paths(self.comparator, self.left, self.right, scope)
        if self.comparator not in ("=", "<>"):
            for each in types:
                _refuse_other_types(self.comparator, each, "SNB")

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Between:
    """`operand BETWEEN low AND high`."""

    operand: Operand
    low: Operand
    high: Operand

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        value = self.operand.read(item, scope)
        return ordered(">=", value, self.low.read(item, scope)) and ordered("<=", value, self.high.read(item, scope))

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        for operand in self.operands():
            _refuse_other_types("BETWEEN", operand.type(scope), "SNB")
        if isinstance(self.low, ValueOperand) and isinstance(self.high, ValueOperand):
            low, high = scope.value(self.low.placeholder), scope.value(self.high.placeholder)
            if not ordered("<=", low, high):
                raise InvalidExpression("The BETWEEN operator requires an upper bound of the same type, and not less")

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from (self.operand, self.low, self.high)


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (operand, ...)`."""

    operand: Operand
    choices: tuple[Operand, ...]

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        value = self.operand.read(item, scope)
        return any(equal(value, choice.read(item, scope)) for choice in self.choices)

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        for operand in self.operands():
            operand.type(scope)

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield self.operand
        yield from self.choices


@dataclass(frozen=True, slots=True)
class BeginsWith:
    """`begins_with(operand, start)`."""

    operand: Operand
    start: Operand

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        return begins_with(self.operand.read(item, scope), self.start.read(item, scope))

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        _refuse_same_paths("begins_with", self.operand, self.start, scope)
        for operand in self.operands():
            _refuse_other_types("begins_with", operand.type(scope), "SB")

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from (self.operand, self.start)


@dataclass(frozen=True, slots=True)
class Contains:
    """`contains(operand, element)`."""

    operand: Operand
    element: Operand

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        return contains(self.operand.read(item, scope), self.element.read(item, scope))

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        _refuse_same_paths("contains", self.operand, self.element, scope)
        for operand in self.operands():
            operand.type(scope)

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from (self.operand, self.element)


@dataclass(frozen=True, slots=True)
class HasType:
    """`attribute_type(path, :type)`."""

    path: PathOperand
    kind: ValueOperand

    def holds(self, item: TypedItem, scope: Scope) -> bool:
        """See `ConditionNode`."""
        value = self.path.read(item, scope)
        return value is not None and type_of(value) == scope.value(self.kind.placeholder)["S"]

    def check(self, scope: Scope) -> None:
        """See `ConditionNode`."""
        self.path.path(scope)
        if scope.value(self.kind.placeholder).get("S") not in TYPES:
            raise InvalidExpression(f"Invalid attribute type name found; valid types: {TYPES}")

    def operands(self) -> Iterator[Operand]:
        """See `ConditionNode`."""
        yield from (self.path, self.kind)


def paths_of(condition: ConditionNode, scope: Scope) -> Iterator[Path]:
    """Yield the paths that a condition reads."""
    for operand in condition.operands():
        inner = getattr(operand, "operand", operand)  # `size` of an operand
        if isinstance(inner, PathOperand):
            yield inner.path(scope)


def _refuse_same_paths(name: str, left: Operand, right: Operand, scope: Scope) -> None:
    if isinstance(left, PathOperand) and isinstance(right, PathOperand) and left.path(scope) == right.path(scope):
        raise InvalidExpression(f"The first operand must be distinct from the remaining operands; operator: {name}")


def _refuse_other_types(name: str, kind: str | None, allowed: str) -> None:
    if kind is not None and kind not in tuple(allowed):
        raise InvalidExpression(
            f"Incorrect operand type for operator or function; operator: {name}, operand type: {kind}"
        )
