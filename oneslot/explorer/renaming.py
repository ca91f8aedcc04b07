"""Names of deliveries in texts, and their exchange: identical deliveries make equal states but for their names."""

from __future__ import annotations

import functools
import re

from oneslot.explorer.process import OWN_NAME

_NAME = re.compile(r"delivery-(\d+)")
_ID = re.compile(rf"({_NAME.pattern})-\d+")

Permutation = tuple[int, ...]
"""Position → the new number of the delivery there; a number beyond its end keeps itself."""


def name_of(delivery: int) -> str:
    """The name that the ids of the delivery with this number start with."""
    return f"delivery-{delivery}"


def is_id_of(delivery: str | None, text: object) -> bool:
    """Whether a text is an id that this delivery, by its name, has made; or any, if it is None."""
    made = _ID.fullmatch(str(text))
    return made is not None and delivery in (None, made[1])


def rename(text: str, permutation: Permutation) -> str:
    """The text with every delivery's name replaced."""
    return _NAME.sub(lambda match: name_of(_new(int(match[1]), permutation)), text)


def rename_lines(text: str, permutation: Permutation) -> str:
    """The same for a text of sorted lines, sorted again."""
    return "\n".join(sorted(rename(text, permutation).split("\n")))


def mask_others(text: str) -> str:
    """The text in an invocation's own view, with all others' names made one: equal for all exchanges of the others."""
    return _NAME.sub(lambda match: match[0] if match[0] == OWN_NAME else "delivery-x", text)


@functools.cache
def swap(number: int) -> Permutation:
    """Exchange 0, an invocation's name for itself, and the number under which the explorer knows it."""
    return (number, *range(1, number), 0) if number else ()


@functools.cache
def view_of(permutation: Permutation, old: int) -> Permutation:
    """What a permutation does in the own view of the delivery `old`, in which that delivery is 0 before and after."""
    new = _new(old, permutation)
    size = max(len(permutation), old + 1, new + 1)
    before, after = swap(old), swap(new)
    view = tuple(_new(_new(_new(number, before), permutation), after) for number in range(size))
    return () if view == tuple(range(size)) else view


def _new(number: int, permutation: Permutation) -> int:
    return permutation[number] if number < len(permutation) else number
