"""Functions of libraries, replaced inside the handler, wherever a module holds them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Running = Callable[[], Any]
"""Returns the process whose code runs, or None."""

Replacement = tuple[Any, str, Any]
"""A module or a class, the name of its function, and the function that stands in for it."""

_NOT_WITHIN = ("oneslot.explorer", "oneslot.dynamodb_in_memory", "importlib", "zipimport")
"""The modules that keep the originals: the explorer's own, and those that import."""

_without: dict[str, tuple[int, int]] = {}
"""The modules that hold no original: the id of each, and how many names it had. Most never change."""


def within(running: Running, inside: Callable[..., Any], outside: Any) -> Any:
    """Return a function that is `inside` for the process that `running` returns, and `outside` for all other code.

    `inside` receives the process and `outside` before its own values.
    """

    def function(*values: Any, **named: Any) -> Any:
        process = running()
        return outside(*values, **named) if process is None else inside(process, outside, *values, **named)

    return function


@contextmanager
def replaced(replacements: Iterable[Replacement]) -> Iterator[None]:
    """Replace functions, also where a library holds one under a name of its own: `from os import rename`."""
    before: list[Replacement] = []
    by_id: dict[int, Any] = {}
    for owner, name, replacement in replacements:
        original = getattr(owner, name)
        by_id[id(original)] = replacement
        before.append((owner, name, original))
    for title, module in list(sys.modules.items()):
        if not getattr(module, "__file__", None) or _without.get(title) == (known := (id(module), len(vars(module)))):
            continue
        if by_id.keys().isdisjoint(map(id, vars(module).values())):
            _without[title] = known
        elif not module.__name__.startswith(_NOT_WITHIN):
            before += [(module, name, value) for name, value in vars(module).items() if id(value) in by_id]
    for owner, name, original in before:
        setattr(owner, name, by_id[id(original)])
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
