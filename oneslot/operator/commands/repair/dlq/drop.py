"""`dlq drop`: dead letters deleted for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from oneslot.errors import InvalidArguments
from oneslot.operator.commands.repair.dlq.display import document_of, say_not_found, show_some, unanswered
from oneslot.operator.commands.repair.dlq.reading import (
    exit_status,
    read_letters_to_change,
    say_no_such_reason,
    selection_options,
)
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.repair.dropping import drop as drop_letters
from oneslot.operator.repair.selection import select
from oneslot.options import json_option, stack_option, yes_option
from oneslot.target import open_target
from oneslot.terminal import Terminal
from oneslot.wording import numbered


@click.command(short_help="Delete dead letters for good.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="Select every message.")
@click.option("--accept-loss", is_flag=True, help="Include requests without an answer, which then never get one.")
@yes_option
@stack_option
@json_option
def drop(  # noqa: PLR0917 - click passes them by name
    ids: Sequence[str],
    file: Path | None,
    reason: str | None,
    everything: bool,
    accept_loss: bool,
    yes: bool,
    stack: str | None,
    as_json: bool,
) -> int:
    """Delete dead letters for good. Without --yes, only say what would be deleted.

    A message is deleted if its request has an answer. A request without one would be lost: deleting it needs
    --accept-loss. The operator log keeps a line for each, by which `oneslot check` accounts for it.
    """
    selection = select(ids, file, reason, everything=everything)
    if not selection.given:
        raise InvalidArguments("Select the messages to drop: give message ids, --file, --reason or --all.")
    terminal = Terminal(as_json)
    target = open_target(stack)
    forecasts, behind = read_letters_to_change(terminal, target)
    missing = selection.missing(forecasts)
    chosen = selection.chosen(forecasts)
    taken = {each.letter.sqs_message_id: each for each in chosen if each.finished or accept_loss}
    spared = [each for each in chosen if each.letter.sqs_message_id not in taken]
    document = document_of(target, list(taken.values())) | {
        "selection": selection.document(),
        "spared": [each.document() for each in spared],
        "not_found": missing,
        "waiting_behind": behind,
    }
    terminal.plain(
        f"To drop: {numbered(len(taken), 'message')}, {unanswered(taken.values())} of them without an answer."
    )
    status = exit_status(selection, missing=missing, taken=len(taken), left=len(spared))
    if spared:
        terminal.plain(f"Left: {len(spared):,} whose request has no answer. Drop them with --accept-loss.")
    if spared and not taken:
        terminal.warn(["Nothing was dropped."])
    say_not_found(terminal, missing)
    say_no_such_reason(terminal, selection, chosen, forecasts)
    show_some(terminal, list(taken.values()))
    if not taken or not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"dropped": 0, "dry_run": not yes})
        return status
    log = open_operator_log(target)
    with terminal.progress("Dropping", len(taken)) as progress:
        gone = drop_letters(target, taken, log, progress)
    terminal.result(document | {"dropped": len(gone), "dry_run": False, "operator_log": str(log.path)})
    terminal.plain(f"{len(gone):,} of {numbered(len(taken), 'message')} dropped. The operator log is {log.path}.")
    return status if len(gone) == len(taken) else 1
