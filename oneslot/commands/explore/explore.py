"""`explore`: run the handlers through every schedule and fault within a budget, or replay one path step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource

from oneslot.declaration.reading import declared
from oneslot.errors import BadInput
from oneslot.options import FILE, Number, json_option
from oneslot.terminal import Terminal

INEFFECTIVE = {
    "handler": ("short", "mutants", "only_mutants", "record", "save", "write", "replay"),
    "replay": ("short", "mutants", "only_mutants", "record", "save", "write"),
    "only_mutants": ("short", "mutants", "save", "write"),
    "short": ("record",),
}
"""For each option the options that have no effect beside it."""

DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path)


@click.command(short_help="Run the handler through every schedule and fault within a budget.")
@click.option("--short", is_flag=True, help="Use the budgets of `make test`: less than a minute.")
@click.option("--mutants/--no-mutants", default=True, help="Also judge every mutant of the core.")
@click.option("--only-mutants", is_flag=True, help="Judge the mutants, and explore nothing.")
@click.option("--record", is_flag=True, help="Record the mutants' verdicts as the expected ones.")
@click.option("--save", type=DIRECTORY, help="Write each counterexample to this directory, for --replay.")
@click.option("--write", type=DIRECTORY, help="Write the figures, the tables and the picture to this directory.")
@click.option("--replay", type=FILE, help="Replay the counterexample in this file on the current code.")
@click.option(
    "--handler",
    metavar="MODULE:NAME",
    help="Explore this unmodified handler, as `app:handler`, below the current directory.",
)
@click.option("--scenario", type=FILE, help="Its messages, tables, law and so on: a Python file with these names.")
@click.option(
    "--budget", type=Number(min=0), metavar="SECONDS", help="Seconds for --handler; 60 unless the scenario says so."
)
@json_option
def explore(  # noqa: PLR0917 - click passes them by name
    short: bool,
    mutants: bool,
    only_mutants: bool,
    record: bool,
    save: Path | None,
    write: Path | None,
    replay: Path | None,
    handler: str | None,
    scenario: Path | None,
    budget: float | None,
    as_json: bool,
) -> int:
    """Explore our handler and the peers', judge the mutants of ours, and print what was covered and what broke.

    Exit status 0 only if no schedule of ours breaks a law, every peer breaks its known laws, and every mutant has its
    recorded verdict. With --handler: exit status 0 if every schedule keeps the law, 1 if one breaks it, and 3
    if the budget ends first.
    """
    _refuse_ineffective_options()
    terminal = Terminal(as_json)
    if handler is not None:
        # Not imported before it is used: it needs `oneslot[explorer]`.
        from oneslot.commands.explore.handler import explore_handler

        return explore_handler(handler, scenario, budget, terminal)
    if scenario is not None or budget is not None:
        raise click.UsageError("--scenario and --budget need --handler. Add --handler app:handler.")
    if replay is not None:
        return _declared_tool("replay")(replay, terminal)
    return _declared_tool("explore")(
        terminal,
        short=short,
        mutants=mutants,
        only_mutants=only_mutants,
        record=record,
        save=save,
        write=write,
    )


def _declared_tool(name: str) -> Callable[..., int]:
    declaration = declared()
    tool = declaration.tool(name)
    if tool is None:
        raise BadInput(
            f"{declaration.path}: tools.{name} is missing, so {declaration.name} has no explorations of its own."
        )
    return tool


def _refuse_ineffective_options() -> None:
    context = click.get_current_context()
    given = {
        option.name: "/".join([*option.opts, *option.secondary_opts])
        for option in context.command.params
        if context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
    }
    for name, others in INEFFECTIVE.items():
        ineffective = [given[other] for other in others if other in given]
        if name in given and ineffective:
            raise click.UsageError(f"{given[name]} does nothing with {', '.join(ineffective)}; leave out one of them.")
