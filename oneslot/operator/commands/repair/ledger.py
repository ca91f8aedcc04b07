"""`ledger`: show a row of the ledger, end its lease, or delete it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from oneslot.errors import LeaseHeld, MalformedRow, NothingToUnlock
from oneslot.laws.evidence import result_of
from oneslot.operator.commands.inspect import row_table
from oneslot.operator.commands.message_id import message_id_argument
from oneslot.operator.evidence.malformed import Standing, malformed_ledger_row, standing
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.repair.entering import EntryReport, Fate, enter_logged, read_lines
from oneslot.operator.repair.ledger_row import advice, consequences, read_row
from oneslot.operator.repair.ledger_row import forget as forget_row
from oneslot.operator.repair.ledger_row import unlock as unlock_row
from oneslot.options import FILE, json_option, stack_option, yes_option
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal
from oneslot.wording import numbered

PROBLEMS_SHOWN = 10


@click.group(short_help="Show a row of the ledger; unlock or forget it; enter a file.")
def ledger() -> None:
    """Show a row of the ledger, repair it, or enter what another system has handled.

    Changes need --yes, and leave a line in the operator log.
    """


@ledger.command(short_help="Show a row, and what it means.")
@message_id_argument
@stack_option
@json_option
def show(message_id: str, stack: str | None, as_json: bool) -> None:
    """Show a request's row, its state, and what to do about it."""
    terminal = Terminal(as_json)
    target = open_target(stack)
    row = read_row(target, message_id)
    now = target.surroundings.now_ms()
    terminal.result(_document(target, row, now))
    _show(terminal, target, row, now)


@ledger.command(short_help="End the lease of a dead consumer.")
@message_id_argument
@yes_option
@stack_option
@json_option
def unlock(message_id: str, yes: bool, stack: str | None, as_json: bool) -> None:
    """End the lease of the current claim, so that the next delivery takes the message over at once.

    Seldom needed: a lease ends at the deadline of the invocation that claimed it. Safe if the consumer still runs: it
    commits first, or it is fenced and writes nothing. The message itself stays hidden until its visibility ends.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    row = read_row(target, message_id)
    now = target.surroundings.now_ms()
    _show(terminal, target, row, now)
    if standing(row, now) is Standing.MALFORMED:
        raise MalformedRow(
            f"{message_id} cannot be unlocked: {malformed_ledger_row(row)[0]}. {advice(target, row, now)}"
        )
    if standing(row, now) is not Standing.LEASED:
        what = "is complete" if standing(row, now) is Standing.COMPLETE else "has no lease"
        raise NothingToUnlock(f"There is nothing to unlock: {message_id} {what}.")
    document = _document(target, row, now)
    if not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"changed": False})
        return
    log = open_operator_log(target)
    unlock_row(target, row, log)
    terminal.result(document | {"changed": True, "operator_log": str(log.path)})
    terminal.plain(
        f"Unlocked: the next delivery of {message_id} claims it. The queue may hide the message until its visibility ends; "
        f"its producer can send it again at once. The operator log is {log.path}."
    )


@ledger.command(short_help="Delete a row, so that the message is unknown.")
@message_id_argument
@yes_option
@stack_option
@json_option
def forget(message_id: str, yes: bool, stack: str | None, as_json: bool) -> None:
    """Delete a request's row, as a last resort. The consequences are shown first.

    The appointment stays as it is. To cancel it, send a cancellation.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    row = read_row(target, message_id)
    now = target.surroundings.now_ms()
    _show(terminal, target, row, now)
    if standing(row, now) is Standing.LEASED:
        raise LeaseHeld(
            f"A consumer holds {message_id}. Wait until its lease has ended, or end it: "
            f"{target.command(f'ledger unlock {message_id}')}."
        )
    warning = consequences(target, row)
    terminal.plain(warning)
    document = _document(target, row, now) | {"consequences": warning}
    if not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"changed": False})
        return
    log = open_operator_log(target)
    forget_row(target, row, log)
    terminal.result(document | {"changed": True, "operator_log": str(log.path)})
    terminal.plain(f"Forgotten. The operator log keeps the row: {log.path}.")


@ledger.command("enter", short_help="Enter messages that another system has handled.")
@click.argument("file", type=FILE)
@yes_option
@stack_option
@json_option
def enter_file(file: Path, yes: bool, stack: str | None, as_json: bool) -> int:
    """Enter the messages of FILE as COMPLETE, so that a later copy is a duplicate and has no effect.

    Each line is the body of a message, a JSON object, or an id alone; a copy of such an id may have any content. An existing
    row stays. Safe to run again after a crash. Exit status 1 if a line was not entered and is not complete.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    lines = sum(1 for _ in read_lines(target, file))
    report = EntryReport()
    with terminal.progress("Entering" if yes else "Reading", lines) as progress:
        if yes:
            enter_logged(target, file, lines, report, progress)
        else:
            report.add_all(((line, Fate.INVALID) for line in read_lines(target, file) if line.problem), progress)
    terminal.result({"stack_name": target.stack_name, "lines": lines, "changed": yes, **report.document()})
    terminal.plain(
        f"{numbered(lines, 'message')}: {report.fates[Fate.ENTERED]:,} entered, {report.fates[Fate.COMPLETE]:,} complete "
        f"before, {report.left_out:,} left out."
    )
    terminal.warn(f"Line {each['line']}: {each['problem']}." for each in report.problems[:PROBLEMS_SHOWN])
    if report.left_out > PROBLEMS_SHOWN:
        terminal.warn([f"... and {report.left_out - PROBLEMS_SHOWN:,} more: see --json."])
    terminal.goes_ahead(yes=yes)
    return int(report.left_out > 0)


def _document(target: Target, row: dict[str, Any], now: int) -> dict[str, Any]:
    return {
        "stack_name": target.stack_name,
        "standing": standing(row, now).value,
        "advice": advice(target, row, now),
        "malformed": [asdict(one) for one in malformed_ledger_row(row)],
        "row": {**row, "result": result_of(row) or None},
    }


def _show(terminal: Terminal, target: Target, row: dict[str, Any], now: int) -> None:
    terminal.plain(row["message_id"])
    terminal.show(row_table("Ledger", row))
    terminal.plain(advice(target, row, now))
