"""`inspect`: the story of one request."""

from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table

from oneslot.errors import RequestUnknown
from oneslot.laws.traces import result_of
from oneslot.operator.evidence.malformed import format_malformed
from oneslot.operator.evidence.tables import format_missing
from oneslot.operator.evidence.unsent import find_undelivered, format_undelivered
from oneslot.operator.options import message_id_argument, on_stack
from oneslot.operator.repair.forecast import WOULD
from oneslot.operator.repair.inspection import Inspection
from oneslot.operator.repair.inspection import inspect as look_up
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table
from oneslot.wording import time_text, with_time


@click.command(short_help="Show what became of one request.")
@message_id_argument
@on_stack
def inspect(terminal: Terminal, target: Target, message_id: str) -> int:
    """Show a request's ledger row, effects and deliveries. MESSAGE_ID may also be SQS's own id.

    Only the attributes that the consumer declares are shown. Exit status 1 if nothing is known of the request, or a table
    is missing.
    """
    with terminal.working("Looking the request up"):
        found = look_up(target, message_id)
    if not found.known:
        nothing = f"Nothing is known of {message_id} in {target.stack_name}."
        again = ["If it was sent just now, try again in a moment."]
        raise RequestUnknown(
            " ".join([nothing, *(format_missing(found.missing, target.command) if found.missing else again)])
        )
    terminal.result(found.document())
    _show(terminal, target, found)
    return int(bool(found.missing))


def _show(terminal: Terminal, target: Target, found: Inspection) -> None:
    terminal.plain(found.message_id)
    terminal.plain(found.summary())
    for each in found.dead_letters:
        terminal.plain(f"A redrive would {WOULD[each.outlook]}: {each.because}.")
    terminal.plain()
    for title, row in (("Ledger", found.ledger), *((name.capitalize(), row) for name, row in found.rows.items())):
        if row is not None:
            terminal.show(row_table(title, row))
    timeline = table("Timeline", "Time (UTC)", "Event")
    for at, what in found.timeline():
        timeline.add_row(time_text(at), what)
    terminal.show(timeline)
    terminal.warn(format_malformed(found.malformed, target.command))
    terminal.warn(format_missing(found.missing, target.command))
    terminal.warn(format_undelivered(find_undelivered(target, [found.ledger or {}]), target.command))


def row_table(title: str, row: Mapping[str, Any]) -> Table:
    """Return a row of one of the tables, its times and its answer in words."""
    shown = table(title, "Attribute", "Value")
    for name, value in row.items():
        shown.add_row(name, _value(name, value))
    return shown


def _value(name: str, value: Any) -> str:
    if value and name in ("updated", "created", "lease_until"):
        return with_time(value)
    if name == "expires_at" and isinstance(value, int):
        return with_time(value * 1000).replace(str(value * 1000), str(value), 1)
    if name == "result":
        return ", ".join(f"{key} {said}" for key, said in result_of({"result": value}).items())
    return str(value)
