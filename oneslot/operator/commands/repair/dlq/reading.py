"""Read the dead-letter queue, and choose from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from oneslot.errors import TableMissing
from oneslot.operator.commands.message_id import MessageId
from oneslot.operator.evidence.dead_letters import count_hidden, format_hidden
from oneslot.operator.evidence.tables import Missing, format_missing
from oneslot.operator.repair.forecast import Forecast, forecast_all
from oneslot.operator.repair.selection import Selection
from oneslot.options import FILE
from oneslot.target import Target
from oneslot.terminal import Terminal

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(function: F) -> F:
    """Message ids as arguments, `--file` and `--reason`: the selection of dead letters."""
    for option in (
        click.option("--reason", metavar="CODE", help="Select the messages with this reason, e.g. receives_exhausted."),
        click.option(
            "--file",
            type=FILE,
            metavar="FILE",
            help="Select the messages of the audit's repair/redrive.jsonl.",
        ),
        click.argument("ids", nargs=-1, metavar="[MESSAGE_ID]...", type=MessageId()),
    ):
        function = option(function)
    return function


def read_letters(terminal: Terminal, target: Target, missing: list[Missing]) -> list[Forecast]:
    """Return a forecast for each visible dead letter; append the tables that are missing to `missing`."""
    with terminal.working("Reading the dead-letter queue"):
        return forecast_all(target, missing)


def count_unseen(target: Target, seen: Sequence[Forecast]) -> int:
    """Return about how many dead letters were not among those `seen`."""
    return count_hidden(target, len(seen))


def read_letters_to_change(terminal: Terminal, target: Target) -> tuple[list[Forecast], int]:
    """Return the forecasts, and about how many messages were not seen.

    Raises `OneslotError` if a table is missing: the effect of a change cannot be foretold without it.
    """
    missing: list[Missing] = []
    forecasts = read_letters(terminal, target, missing)
    if missing:
        raise TableMissing(" ".join(["Nothing was changed.", *format_missing(missing, target.command)]))
    behind = count_unseen(target, forecasts)
    terminal.warn(format_hidden(behind))
    return forecasts, behind


def say_no_such_reason(
    terminal: Terminal, selection: Selection, chosen: Sequence[Forecast], everything: Sequence[Forecast]
) -> None:
    """Say which reasons there are, where no message has the one that was asked for."""
    if selection.reason is not None and not chosen and not selection.ids:
        terminal.plain(no_such_reason(selection.reason, everything))


def no_such_reason(reason: str, everything: Sequence[Forecast]) -> str:
    """Return which reasons there are instead: the one that was asked for may be misspelt."""
    others = ", ".join(sorted({each.letter.reason for each in everything}))
    return f"No message has the reason {reason}" + (f"; the reasons are {others}." if others else ".")


def exit_status(selection: Selection, *, missing: Sequence[str], taken: int, left: int) -> int:
    """Return 1 if a message that was asked for is missing or left, or if every chosen one is left; else 0.

    Without a selection, messages that a redrive cannot help are not part of the request.
    """
    return int(bool(missing) or (left > 0 and selection.given and (taken == 0 or bool(selection.ids))))
