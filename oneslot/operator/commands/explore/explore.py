"""`explore`: run an unmodified handler through every schedule and fault within a budget."""

from __future__ import annotations

from pathlib import Path

import click

from oneslot.operator.options import FILE, Number, json_option
from oneslot.operator.terminal import Terminal


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
    from oneslot.operator.commands.explore.handler import explore_handler

    return explore_handler(handler, scenario, budget, Terminal(as_json), verbose=verbose)
