"""Read the dead-letter queue, and choose from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from oneslot.commands.message_id import MessageId
from oneslot.errors import OneslotError
from oneslot.evidence.missing import Missing, told
from oneslot.options import FILE
from oneslot.repair.forecast import Forecast, forecast_all
from oneslot.repair.selection import Selection
from oneslot.runtime.sqs.dead_letters import unseen_told, waiting_behind
from oneslot.target import Target
from oneslot.terminal import Terminal

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(function: F) -> F:
    """Ids as arguments, `--file`, `--reason`: which messages are meant."""
    for option in (
        click.option("--reason", metavar="CODE", help="Those with this reason, e.g. receives_exhausted."),
        click.option("--file", type=FILE, metavar="FILE", help="A repair list: the audit's repair/redrive.jsonl."),
        click.argument("ids", nargs=-1, metavar="[MESSAGE_ID]...", type=MessageId()),
    ):
        function = option(function)
    return function


def read_letters(terminal: Terminal, target: Target, missing: list[Missing]) -> list[Forecast]:
    with terminal.working("Reading the dead-letter queue"):
        return forecast_all(target, missing)


def count_unseen(target: Target, seen: Sequence[Forecast]) -> int:
    return waiting_behind(target.sqs, target.outputs.dead_letter_queue_url, len(seen))


def read_letters_to_change(terminal: Terminal, target: Target) -> tuple[list[Forecast], int]:
    """Return what is seen, and about how many are not.

    Raises `OneslotError` if a table is missing: nobody can tell then whom a change helps, and what it loses.
    """
    missing: list[Missing] = []
    forecasts = read_letters(terminal, target, missing)
    if missing:
        raise OneslotError(" ".join(["Nothing was changed.", *told(missing, target.command)]))
    behind = count_unseen(target, forecasts)
    terminal.warn(unseen_told(behind))
    return forecasts, behind


def say_no_such_reason(
    terminal: Terminal, selection: Selection, chosen: Sequence[Forecast], everything: Sequence[Forecast]
) -> None:
    if selection.reason is not None and not chosen and not selection.ids:
        terminal.plain(no_such_reason(selection.reason, everything))


def no_such_reason(reason: str, everything: Sequence[Forecast]) -> str:
    """Which reasons there are instead: the one that was asked for may be misspelt."""
    others = ", ".join(sorted({each.letter.reason for each in everything}))
    return f"No message has the reason {reason}" + (f"; there are {others}." if others else ".")


def exit_status(selection: Selection, *, missing: Sequence[str], taken: int, left: int) -> int:
    """1 if not all was done, or can be: an id was not found or its message left alone, or all that was chosen was.

    Where nothing was chosen, what cannot be helped is no part of what was asked for.
    """
    return int(bool(missing) or (left > 0 and selection.given and (taken == 0 or bool(selection.ids))))
