"""The codes of the command line's errors, from their classes."""

from __future__ import annotations

from collections.abc import Iterator

from lab.figures.tables import table
from oneslot import errors
from oneslot.errors import OneslotError


def codes() -> str:
    """Return a row for each error: its code, the exit status of a command that ends with it, and what it says."""
    rows = {each.code: [f"`{each.code}`", str(each.exit_code), each.__doc__ or ""] for each in _classes(OneslotError)}
    return table(["code", "exit status", "what happened"], [rows[code] for code in sorted(rows)])


def _classes(base: type[OneslotError]) -> Iterator[type[OneslotError]]:
    if base.__module__ == errors.__name__:
        yield base
    for each in base.__subclasses__():
        yield from _classes(each)
