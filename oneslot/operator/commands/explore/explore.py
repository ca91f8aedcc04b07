"""`explore`: run an unmodified handler through every schedule and fault within a budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oneslot.errors import HandlerNotExplorable, InvalidScenario
from oneslot.operator.options import FILE, Number, json_option
from oneslot.operator.terminal import Terminal

if TYPE_CHECKING:
    from oneslot.explorer.handlers.given import Given

FROM_TEMPLATE = {"template", "function", "stack"}
"""The names of a scenario file that say which template has the rest."""

STATES_A_REPORT = 2_000
"""The explorer reports its progress after this many states."""


@click.command(short_help="Run a handler through every schedule and fault within a budget.")
@click.option(
    "--handler",
    metavar="MODULE:NAME",
    required=True,
    help="Explore this unmodified handler, as `app:handler`, below the current directory.",
)
@click.option(
    "--scenario",
    type=FILE,
    required=True,
    help="Its messages, tables, law and so on: a Python file with these names.",
)
@click.option("--budget", type=Number(min=0), metavar="SECONDS", help="Seconds; 60 unless the scenario says so.")
@click.option("--verbose", is_flag=True, help="Show each step of the shortest path, with the rows.")
@json_option
def explore(handler: str, scenario: Path, budget: float | None, verbose: bool, as_json: bool) -> int:
    """Explore a handler: every order of its calls, with crashes, lost answers and repeated deliveries.

    Exit status 0 if every schedule keeps the law, 1 if one breaks it, and 3 if the budget ends first.
    """
    # Not imported before it is used: it needs `oneslot[explorer]`.
    from oneslot.explorer.handlers.exploration import exploration_of
    from oneslot.explorer.handlers.surroundings.environment import sealed
    from oneslot.explorer.handlers.verdict import STATUSES
    from oneslot.explorer.refusal import NotExplorable

    terminal, given = Terminal(as_json), _given(handler.replace(":", "."), scenario)
    if budget is not None:
        given = replace(given, budget=budget)
    try:
        with terminal.progress("states", None) as advance, sealed():
            result = exploration_of(given, lambda *_: advance(STATES_A_REPORT)).run()
    except NotExplorable as error:
        raise HandlerNotExplorable(str(error)) from error
    terminal.lines(result.text(verbose=verbose), style="" if result.holds else "red")
    terminal.result(result.document)
    return STATUSES[result.kind]


def _given(handler: str, scenario: Path) -> Given:
    from oneslot.explorer.handlers.given import GIVEN, Given
    from oneslot.explorer.handlers.scenario_file import check_rows, read_scenario
    from oneslot.explorer.handlers.templates import from_template
    from oneslot.explorer.handlers.templates.template import tables_of
    from oneslot.explorer.refusal import NotExplorable

    values = read_scenario(scenario, GIVEN | FROM_TEMPLATE)
    if "messages" not in values and "event" not in values:
        raise InvalidScenario(
            f"{scenario}: messages is missing. Define a list of bodies, records or events, or one event."
        )
    own = {name: value for name, value in values.items() if name in GIVEN}
    given = Given(handler)
    if "template" in values:
        try:
            given = from_template(
                values["template"],
                function=values.get("function", ""),
                env=own.pop("env", {}),
                parameters=values.get("stack"),
            )
        except NotExplorable as error:
            raise HandlerNotExplorable(str(error)) from error
    given = replace(given, handler=handler, **own)
    check_rows(given.rows or {}, tables_of(given.tables), scenario)
    return given
