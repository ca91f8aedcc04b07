"""The way to an attribute: its name or a tuple in our words, and text such as `lines[0].price` in boto3's conditions."""

from __future__ import annotations

import re

from oneslot.runtime.effects import InvalidEffects, Path
from oneslot.runtime.values import shown_path

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
