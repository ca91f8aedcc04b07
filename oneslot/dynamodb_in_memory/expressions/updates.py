"""Updates and key conditions: what a parsed expression does to an item, and which items it selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oneslot.dynamodb_in_memory.expressions.parser import ParsedUpdate
from oneslot.dynamodb_in_memory.expressions.paths import Path, changed, find, refuse_overlaps
from oneslot.dynamodb_in_memory.expressions.trees import (
    INCORRECT_TYPE,
    Both,
    ConditionNode,
    PathOperand,
    Scope,
    Test,
    ValueOperand,
    required,
)
from oneslot.dynamodb_in_memory.expressions.values import (
    COMPARATORS,
    SETS,
    AttributeValue,
    InvalidExpression,
    TypedItem,
    added,
    joined,
    type_of,
    without,
)


def check_update(update: ParsedUpdate, scope: Scope) -> list[Path]:
    """Return the paths that an update writes; raise `InvalidExpression` for what is invalid whatever the item is."""
    paths = [path.path(scope) for path in update.paths]
    refuse_overlaps(paths)
    for _, operand in update.sets:
        operand.type(scope)
    for _, value in update.adds:
        _refuse_other_types("ADD", scope.value(value.placeholder), ("N", *SETS))
    for _, value in update.deletes:
        _refuse_other_types("DELETE", scope.value(value.placeholder), SETS)
    return paths


def apply_update(update: ParsedUpdate, item: TypedItem, scope: Scope) -> dict[str, AttributeValue]:
    """Return the item after an update. Every right-hand side sees the item as it was before.

    Raises:
        InvalidUpdate: for an update that does not fit the item.
    """
    values: dict[Path, AttributeValue | None] = {
        path.path(scope): required(operand, item, scope) for path, operand in update.sets
    }
    for path, operand in update.adds:
        before, value = find(item, path.path(scope)), scope.value(operand.placeholder)
        if "N" in value:
            values[path.path(scope)] = added({"N": "0"} if before is None else before, value)
        else:
            values[path.path(scope)] = value if before is None else joined(before, value)
    for path, operand in update.deletes:
        before = find(item, path.path(scope))
        values[path.path(scope)] = None if before is None else without(before, scope.value(operand.placeholder))
    values.update({path.path(scope): None for path in update.removes})
    return changed(item, values)


def key_condition(
    tree: ConditionNode, scope: Scope, partition_key: str, sort_key: str
) -> tuple[AttributeValue, Callable[[TypedItem], bool]]:
    """Return the partition that a key condition names, and the condition as a function of an item.

    Raises:
        InvalidExpression: for anything but `=` on the partition key and at most one condition on the sort key.
    """
    by_name: dict[str, Test] = {}
    for part in _parts(tree):
        name = _key_of(part, scope)
        if name in by_name:
            raise InvalidExpression("KeyConditionExpressions must only contain one condition per key")
        by_name[name] = part
    partition = by_name.pop(partition_key, None)
    if partition is None:
        raise InvalidExpression(f"Query condition missed key schema element: {partition_key}")
    if partition.name != "=":
        raise InvalidExpression("Query key condition not supported")
    if by_name and (not sort_key or sort_key not in by_name):
        raise InvalidExpression(f"Query condition missed key schema element: {sort_key or partition_key}")
    return required(partition.operands[1], {}, scope), lambda item: tree.holds(item, scope)


def _parts(tree: ConditionNode) -> Iterator[Test]:
    """Yield the simple conditions that AND joins."""
    if isinstance(tree, Both) and not tree.either:
        yield from _parts(tree.left)
        yield from _parts(tree.right)
    elif isinstance(tree, Test) and tree.name in ("=", *COMPARATORS, "BETWEEN", "begins_with"):
        yield tree
    else:
        raise InvalidExpression("Invalid operator used in KeyConditionExpression")


def _key_of(condition: Test, scope: Scope) -> str:
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


def _refuse_other_types(name: str, value: AttributeValue, allowed: tuple[str, ...]) -> None:
    if type_of(value) not in allowed:
        raise InvalidExpression(f"{INCORRECT_TYPE} operator: {name}, operand type: {type_of(value)}")
