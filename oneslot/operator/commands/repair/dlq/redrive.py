"""`dlq redrive`: dead letters back to the queue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from oneslot.errors import InvalidArguments, NoRedrive
from oneslot.operator.commands.repair.dlq.chosen import choose, selection_options
from oneslot.operator.commands.repair.dlq.moving import move_in_batches
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.repair.journal import begin_journal, lock_journal, open_journal
from oneslot.operator.repair.selection import count_reordered_groups, select
from oneslot.options import Number, json_option, stack_option, yes_option
from oneslot.target import Target, open_target
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
@click.option("--resume", is_flag=True, help="Continue the redrive that was interrupted.")
@click.option("--abandon", is_flag=True, help="End the interrupted redrive; the rest stays where it is.")
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
    resume: bool,
    abandon: bool,
    yes: bool,
    stack: str | None,
    as_json: bool,
) -> int:
    """Send dead letters to the queue again. Without --yes, only say what would be sent.

    Messages that would fail again stay; on a FIFO queue their group can lose its order. A message is deleted only after
    the queue has accepted it. A journal notes what was sent, so --resume continues after a crash. By the ledger, a
    message that is sent twice takes effect once.
    """
    selection = select(ids, file, reason, everything=everything)
    if (resume or abandon) and selection.given:
        raise InvalidArguments(
            "--resume and --abandon keep the earlier selection. Leave out the ids, --file, --reason and --all."
        )
    terminal = Terminal(as_json)
    target = open_target(stack)
    if resume or abandon:
        with lock_journal(target):
            return _resume(terminal, target, abandon=abandon, yes=yes)
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
    log = open_operator_log(target)
    planned = frozenset(each.letter.sqs_message_id for each in chosen.taken)
    with lock_journal(target):
        journal = begin_journal(target, planned, rate, log.who)
        outcome = move_in_batches(terminal, target, journal)
    terminal.result(document | outcome | {"dry_run": False})
    return chosen.exit_status if outcome["complete"] else 1


def _resume(terminal: Terminal, target: Target, *, abandon: bool, yes: bool) -> int:
    journal = open_journal(target)
    if journal is None:
        raise NoRedrive(f"{target.stack_name} has no interrupted redrive. Begin one: {target.command('dlq redrive')}.")
    terminal.plain(
        f"Interrupted redrive: {len(journal.moved):,} of {len(journal.planned):,} messages moved, "
        f"{len(journal.sent - journal.deleted):,} sent but not deleted, "
        f"{len(journal.planned - journal.sent - set(journal.refused)):,} not sent."
    )
    if not terminal.goes_ahead(yes=yes):
        terminal.result({"stack_name": target.stack_name, "left": len(journal.left), "moved": 0, "dry_run": True})
        return 0
    if abandon:
        kept = journal.finish()
        terminal.result({"stack_name": target.stack_name, "left": len(journal.left), "moved": 0, "journal": str(kept)})
        terminal.plain(f"Ended; its journal is {kept}. List the rest: {target.command('dlq list')}.")
        return 0
    outcome = move_in_batches(terminal, target, journal)
    terminal.result({"stack_name": target.stack_name, **outcome, "dry_run": False})
    return 0 if outcome["complete"] else 1
