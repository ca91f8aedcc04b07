"""`dlq redrive`: dead letters back to the queue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from oneslot.operator.commands.repair.dlq.chosen import choose, selection_options
from oneslot.operator.commands.repair.dlq.moving import move_in_batches
from oneslot.operator.repair.selection import count_reordered_groups, select
from oneslot.options import Number, json_option, stack_option, yes_option
from oneslot.target import open_target
from oneslot.terminal import Terminal
from oneslot.wording import numbered


@click.command(short_help="Send dead letters to the queue again.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="Select every message.")
@click.option("--even-failing", is_flag=True, help="Include the messages that would fail again.")
@click.option(
    "--rate",
    type=Number(min=0.1),
    metavar="N",
    default=100.0,
    show_default=True,
    help="Move at most N messages a second.",
)
@yes_option
@stack_option
@json_option
def redrive(  # noqa: PLR0917 - click passes them by name
    ids: Sequence[str],
    file: Path | None,
    reason: str | None,
    everything: bool,
    even_failing: bool,
    rate: float,
    yes: bool,
    stack: str | None,
    as_json: bool,
) -> int:
    """Send dead letters to the queue again. Without --yes, only say what would be sent.

    Messages that would fail again stay; on a FIFO queue their group can lose its order. A message is deleted only after
    the queue has accepted it, so after a crash run the command again. By the ledger, a message that is sent twice takes
    effect once.
    """
    selection = select(ids, file, reason, everything=everything)
    terminal = Terminal(as_json)
    target = open_target(stack)
    chosen = choose(terminal, target, selection, lambda each: each.helps or even_failing or everything)
    reordered = count_reordered_groups(chosen.taken, chosen.everything)
    document = chosen.document(target, "left_alone", reordered_groups=reordered)
    chosen.show(
        terminal,
        f"To send: {numbered(len(chosen.taken), 'message')}.",
        why_left=(
            f"that would fail again. See why: {target.command('dlq list')}. If their cause is gone, add --even-failing."
        ),
        nothing="Nothing was sent.",
    )
    if reordered:
        terminal.warn(
            [
                f"Order is lost in {numbered(reordered, 'message group')}: a message stays that is older than one to send. "
                f"To keep it, first repair or drop the older ones: {target.command('dlq list')}."
            ]
        )
    if not chosen.taken or not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"moved": 0, "dry_run": not yes})
        return chosen.exit_status
    planned = frozenset(each.letter.sqs_message_id for each in chosen.taken)
    outcome = move_in_batches(terminal, target, planned, rate)
    terminal.result(document | outcome | {"dry_run": False})
    return chosen.exit_status if outcome["complete"] else 1
