"""`dlq drop`: dead letters deleted for good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from oneslot.errors import InvalidArguments
from oneslot.operator.commands.repair.dlq.letters import choose, selection_options, unanswered
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.options import json_option, stack_option, yes_option
from oneslot.operator.repair.dropping import drop as drop_letters
from oneslot.operator.repair.selection import select
from oneslot.operator.target import open_target
from oneslot.operator.terminal import Terminal
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
    chosen = choose(terminal, target, selection, lambda each: each.finished or accept_loss)
    document = chosen.document(target, "spared")
    chosen.show(
        terminal,
        f"To drop: {numbered(len(chosen.taken), 'message')}, {unanswered(chosen.taken)} of them without an answer.",
        why_left="whose request has no answer. Drop them with --accept-loss.",
        nothing="Nothing was dropped.",
    )
    if not chosen.taken or not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"dropped": 0, "dry_run": not yes})
        return chosen.exit_status
    log = open_operator_log(target)
    with terminal.progress("Dropping", len(chosen.taken)) as progress:
        gone = drop_letters(target, {each.letter.sqs_message_id: each for each in chosen.taken}, log, progress)
    terminal.result(document | {"dropped": len(gone), "dry_run": False, "operator_log": str(log.path)})
    terminal.plain(
        f"{len(gone):,} of {numbered(len(chosen.taken), 'message')} dropped. The operator log is {log.path}."
    )
    return chosen.exit_status if len(gone) == len(chosen.taken) else 1
