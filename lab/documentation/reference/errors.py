"""The codes of the command line's errors, from their classes."""

from __future__ import annotations

from collections.abc import Iterator

import demo.errors
import oneslot.errors
from oneslot.errors import OneslotError


def codes() -> str:
    """Return the codes of the errors, by the exit status of a command that ends with one."""
    found = {each.code: each.exit_code for each in _classes(OneslotError)}
    return "\n".join(_of_status(found, status) for status in sorted({*found.values()}))


def _of_status(found: dict[str, int], status: int) -> str:
    return f"Status {status}: {', '.join(f'`{code}`' for code in sorted(found) if found[code] == status)}.\n"


def _classes(base: type[OneslotError]) -> Iterator[type[OneslotError]]:
    if base.__module__ in (oneslot.errors.__name__, demo.errors.__name__):
        yield base
    for each in base.__subclasses__():
        yield from _classes(each)
