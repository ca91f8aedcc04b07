"""`ledger`: show a row of the ledger, end its lease, or delete it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from oneslot.errors import LeaseHeld, MalformedRow, NothingToUnlock
from oneslot.laws.traces import result_of
from oneslot.operator.commands.inspect import row_table
from oneslot.operator.evidence.malformed import Standing, malformed_ledger_row, standing
from oneslot.operator.evidence.operator_log import OperatorLog, open_operator_log
from oneslot.operator.options import message_id_argument, on_stack, yes_option
from oneslot.operator.repair.ledger_row import advice, consequences, read_row
from oneslot.operator.repair.ledger_row import forget as forget_row
from oneslot.operator.repair.ledger_row import unlock as unlock_row
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal


@click.group(short_help="Show a row of the ledger; unlock or forget it.")
def ledger() -> None:
    """Show a row of the ledger, or repair it.

    Changes need --yes, and leave a line in the operator log.
    """


@ledger.command(short_help="Show a row, and what it means.")
@message_id_argument
@on_stack
def show(terminal: Terminal, target: Target, message_id: str) -> None:
    """Show a request's row, its state, and what to do about it."""
    shown = _show(terminal, target, message_id)
    terminal.result(shown.document)


@ledger.command(short_help="End the lease of a dead consumer.")
@message_id_argument
@yes_option
@on_stack
def unlock(terminal: Terminal, target: Target, *, message_id: str, yes: bool) -> None:
    """End the lease of the current claim, so that the next delivery takes the message over at once.

    Seldom needed: a lease ends at the deadline of the invocation that claimed it. Safe if the consumer still runs: it
    commits first, or it is fenced and writes nothing. The message itself stays hidden until its visibility ends.
    """
    shown = _show(terminal, target, message_id)
    if shown.standing is Standing.MALFORMED:
        raise MalformedRow(f"{message_id} cannot be unlocked: {malformed_ledger_row(shown.row)[0]}. {shown.advice}")
    if shown.standing is not Standing.LEASED:
        what = "is complete" if shown.standing is Standing.COMPLETE else "has no lease"
        raise NothingToUnlock(f"There is nothing to unlock: {message_id} {what}. The next delivery needs no change.")
    if log := _changed(terminal, target, shown, unlock_row, yes=yes):
        terminal.plain(
            f"Unlocked: the next delivery of {message_id} claims it. The queue may hide the message until its visibility "
            f"ends; its producer can send it again at once. The operator log is {log.path}."
        )


@ledger.command(short_help="Delete a row, so that the message is unknown.")
@message_id_argument
@yes_option
@on_stack
def forget(terminal: Terminal, target: Target, *, message_id: str, yes: bool) -> None:
    """Delete a request's row, as a last resort. The consequences are shown first.

    Its effects stay as they are.
    """
    shown = _show(terminal, target, message_id)
    if shown.standing is Standing.LEASED:
        raise LeaseHeld(
            f"A consumer holds {message_id}. Wait until its lease has ended, or end it: "
            f"{target.command(f'ledger unlock {message_id}')}."
        )
    shown.document["consequences"] = consequences(target, shown.row)
    terminal.plain(shown.document["consequences"])
    if log := _changed(terminal, target, shown, forget_row, yes=yes):
        terminal.plain(f"Forgotten. The operator log keeps the row: {log.path}.")


@dataclass(frozen=True)
class ShownRow:
    """A row as it was shown: a change is refused if it has another form by then."""

    row: dict[str, Any]
    standing: Standing
    advice: str
    document: dict[str, Any]


def _show(terminal: Terminal, target: Target, message_id: str) -> ShownRow:
    """Read the row, and show what it means. Raises `RowNotFound`."""
    row, now = read_row(target, message_id), target.surroundings.now_ms()
    shown = ShownRow(row, standing(row, now), advice(target, row, now), {})
    shown.document.update(
        stack_name=target.stack_name,
        standing=shown.standing.value,
        advice=shown.advice,
        malformed=[asdict(one) for one in malformed_ledger_row(row)],
        row={**row, "result": result_of(row) or None},
    )
    terminal.plain(message_id)
    terminal.show(row_table("Ledger", row))
    terminal.plain(shown.advice)
    return shown


def _changed(
    terminal: Terminal,
    target: Target,
    shown: ShownRow,
    change: Callable[[Target, dict[str, Any], OperatorLog], None],
    *,
    yes: bool,
) -> OperatorLog | None:
    """Make a change of the row, and return the operator log that has it; None without `--yes`."""
    if not terminal.goes_ahead(yes=yes):
        terminal.result(shown.document | {"changed": False})
        return None
    log = open_operator_log(target)
    change(target, shown.row, log)
    terminal.result(shown.document | {"changed": True, "operator_log": str(log.path)})
    return log
