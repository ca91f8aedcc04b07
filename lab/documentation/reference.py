"""Each list of docs/look-up that is made from the code: `python -m lab.documentation.reference` writes them."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import demo.errors
import oneslot.errors
from lab.figures import first_sentence, listing, replace_blocks
from oneslot.errors import BadInput, OneslotError, Unexpected
from oneslot.explorer.handlers.verdict import STATUSES
from oneslot.operator.cli import INTERRUPTED, all_verbs, own_verbs

LOOK_UP = Path(__file__).resolve().parents[2] / "docs" / "look-up"

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


def verbs() -> str:
    """Return the verbs by the headings of `oneslot --help`."""
    groups = {heading: [str(verb.name) for verb in several] for heading, several in all_verbs().items()}
    groups["Only of the appointments"] = list(own_verbs())
    return listing((heading, ", ".join(f"`{name}`" for name in names)) for heading, names in groups.items())


def exit_statuses() -> str:
    """Return the list of exit statuses."""
    return listing(
        [
            ("0", "done; for a verb that judges: everything holds"),
            (str(OneslotError.exit_code), "failed, or something does not hold; the sentence says what to do"),
            (str(BadInput.exit_code), "wrong arguments, or an unusable file; nothing was changed"),
            (str(STATUSES["not finished"]), "not finished: the budget of `explore` or `scan` ended first"),
            (str(STATUSES["needs an event"]), "not judged: `explore` or `scan` cannot say whether a handler holds"),
            (str(Unexpected.exit_code), "a fault in Oneslot itself"),
            (str(INTERRUPTED), "interrupted by Ctrl-C"),
        ]
    )


def codes() -> str:
    """Return the codes of the errors, by the exit status of a command that ends with one."""
    found = {each.code: each.exit_code for each in _classes(OneslotError)}
    return "\n".join(
        f"Status {status}: {', '.join(f'`{code}`' for code in sorted(found) if found[code] == status)}.\n"
        for status in sorted({*found.values()})
    )


def names() -> str:
    """Return a line for each name to call, by task, then the other names. Raises `LookupError` if one is missing."""
    grouped = [name for group in (*GROUPS.values(), GIVEN) for name in group.split()]
    if wrong := set(grouped) ^ set(oneslot.__all__):
        raise LookupError(f"not both in GROUPS and public: {', '.join(sorted(wrong))}")
    tasks = "\n".join(
        f"## {task}\n\n"
        + "".join(f"{line}\n" for name in group.split() for line in _lines(name, getattr(oneslot, name)))
        for task, group in GROUPS.items()
    )
    return f"{tasks}\n## What these return, raise or take\n\n{', '.join(f'`{name}`' for name in GIVEN.split())}\n"


def _classes(base: type[OneslotError]) -> Iterator[type[OneslotError]]:
    if base.__module__ in (oneslot.errors.__name__, demo.errors.__name__):
        yield base
    for each in base.__subclasses__():
        yield from _classes(each)


def _lines(name: str, found: Any) -> Iterator[str]:
    functions = {each: value for each, value in vars(found).items() if inspect.isfunction(value) and each[0] != "_"}
    if isinstance(found, ModuleType):
        of_a_call = ""
        own = [
            f"`{each}{_parameters(value)}`" for each, value in functions.items() if value.__module__ == found.__name__
        ]
    else:
        raised_or_written = getattr(found, "_is_protocol", False) or (
            inspect.isclass(found) and issubclass(found, BaseException)
        )
        of_a_call = "" if raised_or_written else _parameters(found)
        own = [f"`.{each}{_parameters(value, bound=True)}`" for each, value in functions.items() if name in CALLED]
    yield f"- `{name}{of_a_call}`: {first_sentence(inspect.getdoc(found) or '')}"
    yield from (f"  - {each}" for each in own)


def _parameters(found: Any, *, bound: bool = False) -> str:
    """Return the parameters that a call must give; `...` stands for those that it may give."""
    parameters = list(inspect.signature(found).parameters.values())[1 if bound else 0 :]
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _COLLECTING]
    named = [f"{each.name}=" if each.kind is each.KEYWORD_ONLY else each.name for each in needed]
    return f"({', '.join(named + ['...'] * (len(needed) < len(parameters)))})"


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "command-line.md": {
        "exit statuses": exit_statuses,
        "verbs": verbs,
        "codes": codes,
    },
    "python-api.md": {"names": names},
}
"""A page → the names of its blocks, and the function that writes each."""


def current(name: str) -> str:
    """Return a page as the code is now."""
    return replace_blocks((LOOK_UP / name).read_text(encoding="utf-8"), PAGES[name])


if __name__ == "__main__":
    for page in PAGES:
        (LOOK_UP / page).write_text(current(page), encoding="utf-8")
    sys.stderr.write(f"Wrote {len(PAGES)} pages in docs/look-up.\n")
