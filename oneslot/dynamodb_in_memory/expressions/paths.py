"""Document paths: what they find in an item, the part of an item that they name, and changes at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from oneslot.dynamodb_in_memory.expressions.values import AttributeValue, InvalidExpression, InvalidUpdate, TypedItem

Path = tuple[str | int, ...]
"""Attribute names, and indexes of lists."""


def find(item: TypedItem, path: Path) -> AttributeValue | None:
    """Return the value at a path; None if there is none."""
    value = item.get(path[0])  # type: ignore[arg-type]
    for part in path[1:]:
        if value is None:
            return None
        value = _child(value, part)
    return value


def _child(value: AttributeValue, part: str | int) -> AttributeValue | None:
    if isinstance(part, int):
        elements: Sequence[AttributeValue] = value.get("L", ())
        return elements[part] if part < len(elements) else None
    members: Mapping[str, AttributeValue] = value.get("M", {})
    return members.get(part)


def refuse_overlaps(paths: Iterable[Path]) -> None:
    """Raise `InvalidExpression` if one path is the start of another, or if two use one value as a map and as a list."""
    paths = list(paths)
    if len({path[0] for path in paths}) == len(paths):  # as in most updates
        return
    for one, other in combinations(paths, 2):
        for left, right in zip(one, other, strict=False):
            if isinstance(left, int) != isinstance(right, int):
                raise InvalidExpression(
                    f"Two document paths conflict with each other; path one: {one}, path two: {other}"
                )
            if left != right:
                break
        else:
            raise InvalidExpression(f"Two document paths overlap with each other; path one: {one}, path two: {other}")


def project(item: TypedItem, paths: Iterable[Path]) -> dict[str, AttributeValue]:
    """Return the part of an item that the paths name. Elements of a list move together."""
    found: dict[str, AttributeValue] = {}
    nested: dict[str, list[Path]] = {}
    for path in paths:
        name = str(path[0])
        if len(path) > 1:
            nested.setdefault(name, []).append(path[1:])
        elif name in item:
            found[name] = item[name]
    for name, rests in nested.items():
        part = _part(item.get(name), rests)
        if part is not None:
            found[name] = part
    return found


def _part(value: AttributeValue | None, paths: Sequence[Path]) -> AttributeValue | None:
    """Return the part of a value that the paths name; None if it has none of them."""
    if value is None or () in paths:
        return value
    rests: dict[Any, list[Path]] = {}
    for path in paths:
        rests.setdefault(path[0], []).append(path[1:])
    parts = {part: _part(_child(value, part), rest) for part, rest in rests.items()}
    found = {part: each for part, each in parts.items() if each is not None}
    if not found:
        return None
    return {"L": [found[index] for index in sorted(found)]} if "L" in value else {"M": found}


def changed(item: TypedItem, values: Mapping[Path, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Return the item with these values at these paths, None to remove one. Indexes count in the item as it was before.

    Raises:
        InvalidUpdate: for a path whose parent is missing, or is not the map or list that the path needs.
    """
    after = dict(item)
    nested: dict[str, dict[Path, AttributeValue | None]] = {}
    for path, value in values.items():
        name = str(path[0])
        if len(path) > 1:
            nested.setdefault(name, {})[path[1:]] = value
        elif value is None:
            after.pop(name, None)
        else:
            after[name] = value
    for name, changes in nested.items():
        after[name] = _changed(item.get(name), changes)
    return after


def _changed(value: AttributeValue | None, changes: Mapping[Path, AttributeValue | None]) -> AttributeValue:
    first = next(iter(changes))[0]
    kind = "L" if isinstance(first, int) else "M"
    if value is None or kind not in value:
        raise InvalidUpdate("The document path provided in the update expression is invalid for update")
    if kind == "M":
        return {"M": changed(value["M"], changes)}
    names = {str(position): element for position, element in enumerate(value["L"])}
    elements = changed(names, {(str(path[0]), *path[1:]): each for path, each in changes.items()})
    # Elements beyond the end are appended in the order of their indexes.
    return {"L": [elements[position] for position in sorted(elements, key=int)]}
