"""The names of deliveries in texts, and their exchange: identical deliveries make states that differ only by names."""

import functools
import re

OWN_NAME = "delivery-0"
"""The name in an invocation's own ids; the explorer renames it for each delivery."""

_NAME = re.compile(r"delivery-(\d+)")
_ID = re.compile(rf"({_NAME.pattern})-\d+")

Permutation = tuple[int, ...]
"""Position → the new number of the delivery there. A number beyond its end does not change."""


def name_of(delivery: int) -> str:
    """Return the name that the ids of the delivery with this number start with."""
    return f"delivery-{delivery}"


def is_id_of(delivery: str | None, text: object) -> bool:
    """Return whether a text is an id of the delivery with this name, or of any delivery if the name is None."""
    found = _ID.fullmatch(str(text))
    return found is not None and delivery in (None, found[1])


def rename(text: str, permutation: Permutation) -> str:
    """Return the text with every delivery's name replaced."""
    return _NAME.sub(lambda match: name_of(_new(int(match[1]), permutation)), text)


def rename_lines(text: str, permutation: Permutation) -> str:
    """Return a text of sorted lines with every name replaced, sorted again."""
    return "\n".join(sorted(rename(text, permutation).split("\n")))


def mask_others(text: str) -> str:
    """Return the text with one name for all other deliveries, so that their exchange changes nothing."""
    return _NAME.sub(lambda match: match[0] if match[0] == OWN_NAME else "delivery-x", text)


@functools.cache
def swap(number: int) -> Permutation:
    """Return the exchange of 0, an invocation's number for itself, and its number in the explorer."""
    return (number, *range(1, number), 0) if number else ()


@functools.cache
def view_of(permutation: Permutation, old: int) -> Permutation:
    """Return a permutation in the view of the delivery `old`, which is 0 in its own view before and after."""
    new = _new(old, permutation)
    size = max(len(permutation), old + 1, new + 1)
    before, after = swap(old), swap(new)
    view = tuple(_new(_new(_new(number, before), permutation), after) for number in range(size))
    return () if view == tuple(range(size)) else view


def _new(number: int, permutation: Permutation) -> int:
    return permutation[number] if number < len(permutation) else number
