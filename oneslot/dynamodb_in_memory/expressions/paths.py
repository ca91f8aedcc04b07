"""Document paths: what they find in an item, the part of an item that they name, and changes at them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from oneslot.dynamodb_in_memory.expressions.values import AttributeValue, InvalidExpression, TypedItem

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
    return dict((_part({"M": item}, list(paths)) or {"M": {}})["M"])


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

    Raises `InvalidExpression` for a path whose parent is missing, or is not the map or list that the path needs.
    """
    return dict(_changed({"M": item}, values)["M"]) if values else dict(item)


def _changed(value: AttributeValue | None, changes: Mapping[Path, AttributeValue | None]) -> AttributeValue:
    is_list = isinstance(next(iter(changes))[0], int)
    if value is None or ("L" if is_list else "M") not in value:
        raise InvalidExpression("The document path provided in the update expression is invalid for update")
    before: dict[Any, AttributeValue] = dict(enumerate(value["L"])) if is_list else value["M"]
    after, nested = dict(before), dict[Any, dict[Path, AttributeValue | None]]()
    for (part, *rest), new in changes.items():
        if rest:
            nested.setdefault(part, {})[tuple(rest)] = new
        elif new is None:
            after.pop(part, None)
        else:
            after[part] = new
    after |= {part: _changed(before.get(part), more) for part, more in nested.items()}
    # Elements beyond the end are appended in the order of their indexes.
    return {"L": [after[position] for position in sorted(after)]} if is_list else {"M": after}
