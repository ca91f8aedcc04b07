"""Whether an update does more in a second run, although it has a condition.

The ledger's row expires. A late copy of the message is then decided again, and only the update's condition can refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from oneslot.runtime.effects import Expected, Path, Update
from oneslot.runtime.stores.paths import built_path, path_of
from oneslot.runtime.values import to_attribute

_READS = re.compile(r"(?<![#:.\w])ADD\b|[-+\[]|=(?!\s*(?::|if_not_exists\())", re.IGNORECASE)
"""What depends on the item in an update expression: `ADD`, arithmetic, a position in a list, another attribute's value."""


def expression_repeats(update: str) -> bool:
    """Return whether an update expression may do more in a second run. Its condition is not read."""
    return _READS.search(update) is not None


def repeats(update: Update) -> bool:
    """Return whether a valid update with a condition does more in a second run, and its condition may still hold then.

    To set or remove an attribute, or to add to a set, does no more in a second run. To add to a number, to append, and to
    set or remove the element of a list does.
    """
    changes_again = (
        update.append
        or not all(isinstance(value, Set) for value in update.add.values())
        or any(isinstance(path_of(path)[-1], int) for path in (*update.set, *update.remove))
    )
    return bool(changes_again) and not (update.expect is not None and _ends(update, update.expect))


def _ends(update: Update, expected: Expected) -> bool:
    """Return whether the update's own effect makes the condition false."""
    given, added, appended = (_by_path(part) for part in (update.set, update.add, update.append))
    removed = {path_of(path) for path in update.remove}
    moves = any(isinstance(path[-1], int) for path in removed)  # the elements behind the one removed
    for path, operator, value in _terms(expected):
        if moves and any(isinstance(step, int) for step in path):
            continue
        if operator == "attribute_not_exists":
            # An element beyond a list's end is appended, so it may still not exist.
            ends = path in {*given, *added, *appended} and isinstance(path[-1], str)
        elif path in given:
            ends = to_attribute(given[path], 1) != to_attribute(value, 1)
        elif path in added:
            ends = not isinstance(added[path], Set) and added[path] != 0
        else:
            ends = path in removed or bool(appended.get(path))
        if ends:
            return True
    return False


def _by_path(attributes: Mapping[Any, Any]) -> dict[Path, Any]:
    return {path_of(path): value for path, value in attributes.items()}


def _terms(expected: Expected) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, operator and value of each equality and each missing attribute, all of which must hold."""
    if isinstance(expected, Mapping):
        yield from ((path_of(path), "=", value) for path, value in expected.items())
        return
    expression = expected.get_expression()
    operator, (first, *others) = expression["operator"], expression["values"]
    if operator == "AND":
        for each in (first, *others):
            yield from _terms(each)
    elif (
        operator in ("=", "attribute_not_exists") and not _is_attribute(others) and not hasattr(first, "get_expression")
    ):
        yield built_path(first.name), operator, others[0] if others else None


def _is_attribute(others: Iterable[Any]) -> bool:
    return any(hasattr(each, "name") for each in others)
