"""One unmodified handler, with the scenario of a Python file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneslot.errors import HandlerNotExplorable, InvalidScenario
from oneslot.explorer.handlers.exploration import GIVEN, explore
from oneslot.explorer.handlers.scenario_file import check_rows, read_scenario
from oneslot.explorer.handlers.templates import from_template
from oneslot.explorer.handlers.templates.tables import tables_of
from oneslot.explorer.handlers.verdict import STATUSES
from oneslot.explorer.refusal import NotExplorable
from oneslot.terminal import Terminal

FROM_TEMPLATE = {"template", "function", "stack"}
"""The names of a scenario file that say which template has the rest."""

STATES_A_REPORT = 2_000
"""The explorer reports its progress after this many states."""


def explore_handler(handler: str, scenario: Path, budget: float | None, terminal: Terminal) -> int:
    """Explore the handler and print the verdict. Return its exit status: see `STATUSES`."""
    options = _options(scenario)
    if budget is not None:
        options["budget"] = budget
    try:
        with terminal.progress("states", None) as advance:
            result = explore(handler.replace(":", "."), progress=lambda *_: advance(STATES_A_REPORT), **options)
    except NotExplorable as error:
        raise HandlerNotExplorable(str(error)) from error
    terminal.lines(str(result), style="" if result.holds else "red")
    terminal.result(result.document)
    return STATUSES[result.kind]


def _options(scenario: Path) -> dict[str, Any]:
    values = read_scenario(scenario, GIVEN | FROM_TEMPLATE)
    if "messages" not in values and "event" not in values:
        raise InvalidScenario(
            f"{scenario}: messages is missing. Define a list of bodies, records or events, or one event."
        )
    options = {name: value for name, value in values.items() if name in GIVEN}
    if "template" in values:
        try:
            read = from_template(
                values["template"],
                function=values.get("function", ""),
                env=options.pop("env", {}),
                parameters=values.get("stack"),
            )
        except NotExplorable as error:
            raise HandlerNotExplorable(str(error)) from error
        options = {**{name: value for name, value in read.items() if name in GIVEN}, **options}
    check_rows(options.get("rows", {}), tables_of(options.get("tables", ())), scenario)
    return options
