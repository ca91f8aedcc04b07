"""Every verb of the command line with its options, from the parser itself."""

from __future__ import annotations

from collections.abc import Iterator

import click

from oneslot.cli import FAILURE, INTERRUPTED, main
from oneslot.errors import BadInput
from verification.figures.tables import table

SHARED = ("stack", "as_json", "consumer")
"""Options of most verbs, which the page describes once."""


def verbs() -> str:
    """Return a section for each verb, in the order of `oneslot --help`."""
    context = click.Context(main, info_name="oneslot")
    return "\n".join(_sections(main, context)) + "\n"


def shared_options() -> str:
    """Return the table of the options that most verbs have."""
    context = click.Context(main, info_name="oneslot")
    rows = _options(main.commands["check"], context, shared=True)
    return table(["option", "meaning"], [row[:2] for row in rows])


def exit_statuses() -> str:
    """Return the table of exit statuses."""
    rows = [
        ["0", "done; for a verb that judges: everything holds"],
        [str(FAILURE), "failed, or something does not hold; the sentence says what to do"],
        [str(BadInput.exit_code), "wrong arguments, or an unusable file; nothing was changed"],
        [str(INTERRUPTED), "interrupted by Ctrl-C"],
    ]
    return table(["exit status", "meaning"], rows)


def _sections(group: click.Group, context: click.Context, prefix: str = "oneslot") -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name) or group.commands[name]
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _sections(command, below, f"{prefix} {name}")
        else:
            yield _section(command, below, f"{prefix} {name}")


def _section(command: click.Command, context: click.Context, name: str) -> str:
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    shared = [f"`{each.opts[0]}`" for each in command.get_params(context) if each.name in SHARED[:2]]
    parts = [f"## {name}\n", f"`{' '.join([name, *arguments])}`: {_help(command)}\n"]
    if options := list(_options(command, context)):
        parts.append(table(["option", "meaning", "default"], options))
    if shared:
        parts.append(f"Also {' and '.join(sorted(shared))}.\n")
    return "\n".join(parts)


def _help(command: click.Command) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return " ".join(" ".join(each.split()) for each in paragraphs if "\b" not in each)


def _options(command: click.Command, context: click.Context, *, shared: bool = False) -> Iterator[list[str]]:
    for option in command.get_params(context):
        if isinstance(option, click.Option) and "--help" not in option.opts and (option.name in SHARED) == shared:
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            yield [names + _value(option, context), (option.help or "").replace("|", "\\|"), _default(option)]


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    value = option.make_metavar(context)
    return f" {value}".replace("|", "\\|").replace("[", "").replace("]", "")


def _default(option: click.Option) -> str:
    if option.is_flag or not option.show_default:
        return "required" if option.required else ""
    return f"`{option.default}`"
