"""The codes of the command line's errors, from their classes."""

from __future__ import annotations

from collections.abc import Iterator

import demo.errors
import oneslot.errors
from lab.figures.tables import listing
from oneslot.errors import OneslotError


def codes() -> str:
    """Return each error: its code, the exit status of a command that ends with it, and what it says."""
    sentences = {f"`{each.code}` ({each.exit_code})": each.__doc__ or "" for each in _classes(OneslotError)}
    return listing(sorted(sentences.items()))


def _classes(base: type[OneslotError]) -> Iterator[type[OneslotError]]:
    if base.__module__ in (oneslot.errors.__name__, demo.errors.__name__):
        yield base
    for each in base.__subclasses__():
        yield from _classes(each)
