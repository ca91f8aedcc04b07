"""Every verb of the command line with its options, from the parser itself. `--help` of a verb says more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from lab.figures.tables import table
from oneslot.cli import FAILURE, INTERRUPTED, main
from oneslot.errors import BadInput
from oneslot.explorer.handlers.verdict import STATUSES

SHARED = ("stack", "consumer", "as_json", "yes")
"""Options of most verbs, which the page describes once."""

Verb = tuple[str, click.Command, click.Context]
Row = tuple[str, str]


def verbs() -> str:
    """Return a section for each verb, in the order of `oneslot --help`. An option that a verb before it has is only named."""
    first: dict[Row, str] = {}
    return "\n".join(_section(verb, first) for verb in _verbs(main, click.Context(main, info_name="oneslot"))) + "\n"


def shared_options() -> str:
    """Return the table of the options that most verbs have, with these verbs."""
    every = [*_verbs(main, click.Context(main, info_name="oneslot"))]
    rows = []
    for shared in SHARED:
        having = [(name, row) for name, command, context in every for row in _rows(command, context, shared.__eq__)]
        rows.append([*having[0][1], _listed([name for name, _ in having], [name for name, _, _ in every])])
    return table(["option", "meaning", "verbs"], rows)


def exit_statuses() -> str:
    """Return the table of exit statuses."""
    rows = [
        ["0", "done; for a verb that judges: everything holds"],
        [str(FAILURE), "failed, or something does not hold; the sentence says what to do"],
        [str(BadInput.exit_code), "wrong arguments, or an unusable file; nothing was changed"],
        [str(STATUSES["not finished"]), "not finished: the budget of `explore --handler` ended first"],
        [str(INTERRUPTED), "interrupted by Ctrl-C"],
    ]
    return table(["exit status", "meaning"], rows)


def _listed(having: list[str], every: list[str]) -> str:
    lacking = [name for name in every if name not in having]
    names, before = (having, "") if len(having) < len(lacking) else (lacking, "all but ")
    return before + ", ".join(f"`{name}`" for name in names) if names else "all"


def _verbs(group: click.Group, context: click.Context, prefix: str = "") -> Iterator[Verb]:
    for name in group.list_commands(context):
        command = group.get_command(context, name) or group.commands[name]
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _verbs(command, below, f"{prefix}{name} ")
        else:
            yield prefix + name, command, below


def _section(verb: Verb, first: dict[Row, str]) -> str:
    name, command, context = verb
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    parts = [f"## oneslot {' '.join([name, *arguments])}\n", f"{_help(command)}\n"]
    rows = [*_rows(command, context, lambda option: option not in SHARED)]
    listed = [f"- {option}: {meaning}" for option, meaning in rows if (option, meaning) not in first]
    for earlier in dict.fromkeys(first[row] for row in rows if row in first):
        options = ", ".join(row[0] for row in rows if first.get(row) == earlier)
        listed.append(f"- As for `{earlier}`: {options}.")
    first.update({row: name for row in rows if row not in first})
    return "\n".join([*parts, *(f"{line}\n" for line in ["\n".join(listed)] if line)])


def _help(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _rows(command: click.Command, context: click.Context, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for option in command.get_params(context):
        if isinstance(option, click.Option) and "--help" not in option.opts and wanted(option.name or ""):
            names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
            meaning = f"{option.help or ''} {_default(option)}".strip()
            yield names + _value(option, context), meaning.replace("|", "\\|")


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    value = option.make_metavar(context)
    return f" {value}".replace("|", "\\|").replace("[", "").replace("]", "")


def _default(option: click.Option) -> str:
    if option.is_flag or not option.show_default:
        return "Required." if option.required else ""
    return f"Default: `{option.default}`."
