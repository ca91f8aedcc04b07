"""The public names of `oneslot`, with the parameters that they need and the first lines of their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import oneslot
from lab.documentation.blocks import first_sentence

GROUPS = {
    "Write a consumer": (
        "consumer_from_environment ledger_from_environment Consumer Queues JsonMessage typed Identity envelopes "
        "Effects Put Update Delete Check Raw Send Once from_attributes Unprocessable conflict"
    ),
    "Make a handler idempotent": (
        "make_handler_idempotent performing again set_aside ask acquire mark_processed release on_release"
    ),
    "Send messages": "Producer Outgoing",
    "Attempt one message": "attempt",
    "Store": "DynamoDBLedger MemoryLedger Store",
}
"""Each task, and the names for it, the most needed first."""

GIVEN = (
    "Accepted Answer Busy Claim Committed Conflict Delivery Done Duplicate Exists Fenced InvalidEffects Locked LockLost "
    "Message NOT_DONE NotAccepted Outcome Surroundings Taken UNKNOWN"
)
"""What these return, raise or take, which `help` explains."""

CALLED = ("Producer", "Store")
"""The classes whose methods a reader calls or writes. Those of the others are called by the library."""

_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def names() -> str:
    """Return a line for each name to call, by task, then the other names. Raises `LookupError` if one is missing."""
    grouped = [name for group in (*GROUPS.values(), GIVEN) for name in group.split()]
    if wrong := set(grouped) ^ set(oneslot.__all__):
        raise LookupError(f"not both in GROUPS and public: {', '.join(sorted(wrong))}")
    tasks = "\n".join(f"## {task}\n\n{_list(group.split())}" for task, group in GROUPS.items())
    return f"{tasks}\n## What these return, raise or take\n\n{', '.join(f'`{name}`' for name in GIVEN.split())}\n"


def _list(group: list[str]) -> str:
    return "".join(f"{line}\n" for name in group for line in _lines(name, getattr(oneslot, name)))


def _lines(name: str, found: Any) -> Iterator[str]:
    if isinstance(found, ModuleType):
        yield f"- `{name}`: {_summary(found)}"
        functions = [each for each in vars(found).values() if inspect.isfunction(each)]
        public = [each for each in functions if each.__module__ == found.__name__ and not each.__name__.startswith("_")]
        yield from (f"  - `{each.__name__}{_parameters(each)}`" for each in public)
    elif inspect.isclass(found):
        yield f"- `{name}{_of_class(found)}`: {_summary(found)}"
        if name in CALLED:
            yield from (f"  - `.{method}{_parameters(each, bound=True)}`" for method, each in _methods(found))
    else:
        yield f"- `{name}{_parameters(found)}`: {_summary(found)}"


def _of_class(found: Any) -> str:
    if getattr(found, "_is_protocol", False) or issubclass(found, BaseException):
        return ""
    return _parameters(found)


def _methods(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class."""
    for method, each in vars(found).items():
        if inspect.isfunction(each) and not method.startswith("_"):
            yield method, each


def _parameters(found: Any, *, bound: bool = False) -> str:
    """Return the parameters that a call must give; `...` stands for those that it may give."""
    parameters = list(inspect.signature(found).parameters.values())[1 if bound else 0 :]
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _COLLECTING]
    names = [f"{each.name}=" if each.kind is each.KEYWORD_ONLY else each.name for each in needed]
    return f"({', '.join(names + ['...'] * (len(needed) < len(parameters)))})"


def _summary(found: Any) -> str:
    return first_sentence(inspect.getdoc(found) or "")
