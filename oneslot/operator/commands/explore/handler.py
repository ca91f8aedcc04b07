"""One unmodified handler, with the scenario of a Python file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oneslot.errors import HandlerNotExplorable, InvalidScenario
from oneslot.explorer.handlers.exploration import explore_given
from oneslot.explorer.handlers.given import GIVEN, Given
from oneslot.explorer.handlers.scenario_file import check_rows, read_scenario
from oneslot.explorer.handlers.surroundings.environment import sealed
from oneslot.explorer.handlers.templates import from_template
from oneslot.explorer.handlers.templates.template import tables_of
from oneslot.explorer.handlers.verdict import STATUSES
from oneslot.explorer.refusal import NotExplorable
from oneslot.operator.terminal import Terminal

FROM_TEMPLATE = {"template", "function", "stack"}
"""The names of a scenario file that say which template has the rest."""

STATES_A_REPORT = 2_000
"""The explorer reports its progress after this many states."""


def explore_handler(
    handler: str, scenario: Path, budget: float | None, terminal: Terminal, *, verbose: bool = False
) -> int:
    """Explore the handler and print the verdict. Return its exit status: see `STATUSES`."""
    given = _given(handler.replace(":", "."), scenario)
    if budget is not None:
        given = replace(given, budget=budget)
    try:
        with terminal.progress("states", None) as advance, sealed():
            result = explore_given(given, lambda *_: advance(STATES_A_REPORT))
    except NotExplorable as error:
        raise HandlerNotExplorable(str(error)) from error
    terminal.lines(result.text(verbose=verbose), style="" if result.holds else "red")
    terminal.result(result.document)
    return STATUSES[result.kind]


def _given(handler: str, scenario: Path) -> Given:
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
