"""`dlq redrive`: dead letters back to the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from oneslot.operator.commands.repair.dlq.letters import choose, selection_options
from oneslot.operator.evidence.operator_log import BEGUN, DONE, NOT_DONE, open_operator_log
from oneslot.operator.options import Number, json_option, stack_option, yes_option
from oneslot.operator.repair.redrive import Redrive
from oneslot.operator.repair.redrive import redrive as move_letters
from oneslot.operator.repair.selection import count_reordered_groups, select
from oneslot.operator.target import Target, open_target
from oneslot.operator.terminal import Terminal
from oneslot.wording import numbered

REDRIVE = "dlq redrive"
AGAIN = "Run the command again in five minutes: a message that was sent twice takes effect once."


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


def move_in_batches(terminal: Terminal, target: Target, planned: frozenset[str], rate: float) -> dict[str, Any]:
    """Move these messages, say how it ended, and return that as a document."""
    log = open_operator_log(target)
    one = Redrive(planned, rate, target.surroundings.new_id())
    subject = {"run": one.run}
    log.write(REDRIVE, subject, BEGUN, planned=sorted(planned))
    try:
        with terminal.progress("Redriving", len(planned)) as progress:
            move_letters(target, one, progress)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"Interrupted: {one.moved:,} of {numbered(len(planned), 'message')} moved; nothing is lost. {AGAIN}"
        ) from interrupt
    log.write(
        REDRIVE, subject, DONE if one.complete else NOT_DONE, moved=one.moved, taken=one.taken, refused=one.refused
    )
    terminal.plain(f"{numbered(one.moved, 'message')} moved to the queue. The operator log is {log.path}.")
    if one.taken:
        terminal.plain(f"{numbered(one.taken, 'message')} not moved: another operator moved or dropped them.")
    if one.refused:
        codes = ", ".join(f"{count} {code}" for code, count in Counter(one.refused.values()).items())
        terminal.plain(f"The queue rejects these messages for good, so they stay: {codes}.", style="red")
    if one.left:
        terminal.plain(
            f"{numbered(len(one.left), 'message')} left: another reader hides them, or SQS did not delete them. {AGAIN}",
            style="red",
        )
    return {
        "moved": one.moved,
        "refused": one.refused,
        "taken": one.taken,
        "unseen": len(one.left),
        "complete": one.complete,
        "operator_log": str(log.path),
    }
