"""Every verb of the command line, the options that most share, and the codes of its errors. `--help` has the others."""

from __future__ import annotations

from collections.abc import Iterator

import click

import demo.errors
import oneslot.errors
from lab.documentation.blocks import first_sentence
from lab.figures.tables import listing
from oneslot.errors import BadInput, OneslotError, Unexpected
from oneslot.explorer.handlers.verdict import STATUSES
from oneslot.operator.cli import INTERRUPTED, main
from oneslot.operator.commands.send import send

SHARED = ("stack", "consumer", "as_json", "yes")
"""Options of most verbs, which the page describes once."""

Verb = tuple[str, click.Command, click.Context]

_MAIN = (main, click.Context(main, info_name="oneslot"))


def verbs() -> str:
    """Return each verb and what it does, in the order of `oneslot --help`."""
    return listing(_entry(*verb) for verb in _verbs(*_MAIN))


def send_of_any_consumer() -> str:
    """Return `send` as a consumer has it that declares no verb of this name, as the appointments do."""
    return listing([_entry("send", send, click.Context(send))])


def shared_options() -> str:
    """Return the options that most verbs have."""
    every = [(context, option) for _, command, context in _verbs(*_MAIN) for option in _options(command)]
    found = [next(each for each in every if each[1].name == shared) for shared in SHARED]
    return listing(
        (f"`{_synopsis(option, context).replace('|', '`, `')}`", option.help or "") for context, option in found
    )


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
    return "\n".join(_of_status(found, status) for status in sorted({*found.values()}))


def _verbs(group: click.Group, context: click.Context, prefix: str = "") -> Iterator[Verb]:
    for name in group.list_commands(context):
        command = group.get_command(context, name) or group.commands[name]
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _verbs(command, below, f"{prefix}{name} ")
        else:
            yield prefix + name, command, below


def _entry(name: str, command: click.Command, context: click.Context) -> tuple[str, str]:
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    return f"`{' '.join(['oneslot', name, *arguments])}`", first_sentence(command.help or "")


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _synopsis(option: click.Option, context: click.Context) -> str:
    """Return an option as a usage line has it: its names, and its value's name."""
    names = "|".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.make_metavar(context).strip('[]')}"


def _of_status(found: dict[str, int], status: int) -> str:
    return f"Status {status}: {', '.join(f'`{code}`' for code in sorted(found) if found[code] == status)}.\n"


def _classes(base: type[OneslotError]) -> Iterator[type[OneslotError]]:
    if base.__module__ in (oneslot.errors.__name__, demo.errors.__name__):
        yield base
    for each in base.__subclasses__():
        yield from _classes(each)
