"""What a write relies on: conditions in DynamoDB's language, the paths in them, and whether a write ends its own.

A path is a name or a tuple in our words, and text such as `lines[0].price` in boto3's conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

from oneslot.runtime.effects import (
    BuiltCondition,
    Check,
    Delete,
    Expected,
    InvalidContent,
    InvalidEffects,
    Path,
    Put,
    Raw,
    Update,
    Write,
)
from oneslot.runtime.values import shown_path, to_attribute, to_attributes

if TYPE_CHECKING:
    from oneslot.runtime.stores.transaction import Words

MOST_OPERANDS = 100
"""Of `IN`, by DynamoDB's quotas."""

_NAME = r"[^.\[\]]+"
_BUILT = re.compile(rf"{_NAME}(\[[0-9]+\])*(\.{_NAME}(\[[0-9]+\])*)*")
_STEP = re.compile(rf"\[([0-9]+)\]|{_NAME}")


def path_of(given: str | Path) -> Path:
    """Return a name or a path as a path.

    Raises:
        InvalidEffects: unless it begins with a name, and goes on with names, and positions from 0.
    """
    path = (given,) if isinstance(given, str) else given
    if not (path and isinstance(path[0], str)):
        raise InvalidEffects(f"{shown_path(path)!r} is no path; begin it with an attribute's name")
    if not all((isinstance(step, str) and step) or (type(step) is int and step >= 0) for step in path[1:]):
        raise InvalidEffects(
            f"{shown_path(path)!r} is no path; after its first name, it takes names, and positions from 0 in lists"
        )
    return path


def built_path(text: object) -> Path:
    """Return the path in the name of boto3's `Attr`. Raises `InvalidEffects` for what is none."""
    if not isinstance(text, str) or not _BUILT.fullmatch(text):
        raise InvalidEffects("the name of an Attr is no path; write it as in Attr('lines[0].price')")
    return tuple(int(found[1]) if found[1] else found[0] for found in _STEP.finditer(text))


def shown_paths(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values by their paths as an error shows them. Raises `InvalidEffects` for what is no path, or is there twice."""
    shown: dict[str, Any] = {}
    for path, value in attributes.items():
        if isinstance(path, str) and ("." in path or "[" in path):
            raise InvalidEffects(
                f"{path!r} is a path or a name; write a tuple: ('address', 'city') for city in address, and "
                "('a.b',) for an attribute with a dot in its name"
            )
        name = ".".join(map(str, path_of(path))) if isinstance(path, tuple) else path
        if name in shown:
            raise InvalidEffects(f"{name!r} is written twice, as a path and as a name; write it once")
        shown[name] = value
    return shown


def condition_text(words: Words, condition: BuiltCondition) -> str:
    """Return a condition of boto3's as text. boto3 itself is not needed for that."""
    expression = condition.get_expression()
    grouped = getattr(condition, "has_grouped_values", False)
    name = next((each.name for each in expression["values"] if hasattr(each, "name")), "expect")
    operands = [_operand(words, each, name, grouped) for each in expression["values"]]
    if expression["operator"] == "begins_with":
        start = expression["values"][1]
        if not hasattr(start, "name") and not {*to_attribute(start, 1)} & {"S", "B"}:
            raise InvalidEffects(
                f"{name!r} in {words.write.table!r} is given to `begins_with`, which takes text or bytes"
            )
    return str(expression["format"]).format(*operands, operator=expression["operator"])


def _operand(words: Words, operand: Any, name: str, grouped: bool) -> str:
    if hasattr(operand, "get_expression"):
        return condition_text(words, operand)
    if hasattr(operand, "name"):  # Attr, and Key
        words.named.append({operand.name: {"NULL": True}})
        return words.path(built_path(operand.name))
    if grouped:  # the values of `is_in`
        listed = [_operand(words, each, name, grouped=False) for each in operand]
        if not 0 < len(listed) <= MOST_OPERANDS:
            raise InvalidContent(
                f"{name!r} in {words.write.table!r} is given to `is_in` with {len(listed)} values, "
                f"which takes 1 to {MOST_OPERANDS}"
            )
        return f"({', '.join(listed)})"
    typed = to_attributes({name: operand})[name]
    words.named.append({"": typed})
    return words.value(typed)


_NEW = re.compile(r"attribute_not_exists\(([^()\s.\[]+)\)")
"""The condition of a raw put of a new item, as far as it is understood."""


def repeats(write: Write) -> str:
    """Return why a copy of the message could run the write again, after other messages; empty if its condition prevents it.

    A write that ends its own condition is safe until another message restores exactly what it expected.
    """
    if isinstance(write, Raw):
        return _raw_repeats(write)
    if isinstance(write, Check) or (isinstance(write, Put) and not write.replace):
        return ""
    if write.expect is None:
        return {Put: "replaces whatever item is there", Delete: "deletes whatever item is there"}.get(
            type(write), _NONE
        )
    if isinstance(write, Delete):
        return "deletes an item that another message may make again"
    return "" if _ends(write, write.expect) else _STAYS


_UNDERSTOOD = ("=", "<>", "attribute_not_exists")
"""The comparisons of which a write can be seen to end them."""
_NONE, _STAYS = "has no condition", "does not end its own condition"


def _raw_repeats(raw: Raw) -> str:
    condition, item = raw.request.get("ConditionExpression"), raw.request.get("Item", {})
    if "ConditionCheck" in raw.element or condition is None:
        return "" if condition else _NONE
    new = _NEW.fullmatch(condition.strip())
    return "" if new and raw.request.get("ExpressionAttributeNames", {}).get(new[1], new[1]) in item else _STAYS


def _ends(write: Put | Update, expected: Expected) -> bool:
    """Return whether the write's own effect makes the condition false."""
    if isinstance(write, Put):
        return any(_differs(write.item, *term) for term in terms(expected) if term[0] and term[1] in _UNDERSTOOD)
    given, added, appended = (
        {path_of(path): value for path, value in part.items()} for part in (write.set, write.add, write.append)
    )
    removed = {path_of(path) for path in write.remove}
    moves = any(isinstance(path[-1], int) for path in removed)  # the elements behind the one removed
    for path, operator, value in terms(expected):
        if operator not in _UNDERSTOOD or not path:
            continue
        if moves and any(isinstance(step, int) for step in path):
            continue
        if operator == "attribute_not_exists":
            # An element beyond a list's end is appended, so it may still not exist.
            ends = path in {*given, *added, *appended} and isinstance(path[-1], str)
        elif path in given:
            ends = (to_attribute(given[path], 1) == to_attribute(value, 1)) == (operator == "<>")
        elif operator == "<>":
            ends = False
        elif path in added:
            ends = not isinstance(added[path], Set) and added[path] != 0
        else:
            ends = path in removed or bool(appended.get(path))
        if ends:
            return True
    return False


def _differs(item: Any, path: Path, operator: str, value: Any) -> bool:
    """Return whether an item does not meet a term."""
    for step in path:
        fits = isinstance(item, Mapping) if isinstance(step, str) else isinstance(item, list | tuple)
        if not fits or (step not in item if isinstance(step, str) else not step < len(item)):
            return operator == "="
        item = item[step]
    if operator == "attribute_not_exists":
        return True
    return (to_attribute(item, 1) == to_attribute(value, 1)) == (operator == "<>")


def terms(expected: Expected | None) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, operator and value of each comparison, all of which must hold.

    What compares no attribute with a value, such as `OR` and `size`, has an empty path.
    """
    if expected is None or isinstance(expected, Mapping):
        yield from ((path_of(path), "=", value) for path, value in (expected or {}).items())
        return
    expression = expected.get_expression()
    operator, (first, *others) = expression["operator"], expression["values"]
    if operator == "AND":
        for each in (first, *others):
            yield from terms(each)
    elif hasattr(first, "get_expression") or any(hasattr(each, "name") for each in others):
        yield (), operator, None
    else:
        yield built_path(first.name), operator, others[0] if others else None
