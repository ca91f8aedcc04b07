"""`dlq`: the dead-letter queue: look, send through again, drop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from oneslot.commands.confirmation import confirmed
from oneslot.commands.dead_letter_display import (
    WOULD,
    age,
    document_of,
    name_of,
    row_text,
    say_not_found,
    show_some,
    unanswered,
)
from oneslot.errors import BadInput, OneslotError
from oneslot.evidence.missing import Missing, told
from oneslot.options import FILE, MessageId, Number, json_option, stack_option, yes_option
from oneslot.repair.dropping import drop as drop_letters
from oneslot.repair.forecast import Forecast, forecast_all, grouped
from oneslot.repair.journal import Journal, begin_journal, open_journal
from oneslot.repair.move_task import FASTEST, follow_move, start_move
from oneslot.repair.operator_log import BEGUN, DONE, NOT_DONE, open_trail
from oneslot.repair.redrive import redrive as move_in_batches
from oneslot.repair.selection import Selection, select
from oneslot.runtime.sqs.dead_letters import unseen_told, waiting_behind
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal, table

REDRIVE = "dlq redrive"

F = TypeVar("F", bound=Callable[..., Any])


@click.group(short_help="The dead-letter queue: list, show, redrive, drop.")
def dlq() -> None:
    """Look into the dead-letter queue, and repair. Looking takes nothing away; changes need --yes."""


def selection_options(function: F) -> F:
    """Ids as arguments, `--file`, `--reason`: which messages are meant."""
    for option in (
        click.option("--reason", metavar="CODE", help="Those with this reason, e.g. receives_exhausted."),
        click.option("--file", type=FILE, metavar="FILE", help="A repair list: the audit's repair/redrive.jsonl."),
        click.argument("ids", nargs=-1, metavar="[MESSAGE_ID]...", type=MessageId()),
    ):
        function = option(function)
    return function


@dlq.command("list", short_help="What is in it, and what a redrive would do.")
@click.option("--reason", metavar="CODE", help="Only those with this reason.")
@stack_option
@json_option
def list_letters(reason: str | None, stack: str | None, as_json: bool) -> int:
    """Group the messages by reason, and say for each what a redrive would do, by asking the ledger.

    Nothing is taken out. Each look adds 1 to the messages' receive counts in the dead-letter queue, which mean nothing
    there. Exit status 1 if a table is missing that had to be asked; the messages are listed all the same.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    missing: list[Missing] = []
    everything = _look(terminal, target, missing)
    forecasts = Selection(reason=reason).chosen(everything)
    behind = _unseen(target, everything)
    terminal.result(
        document_of(target, forecasts) | {"waiting_behind": behind, "missing": [asdict(one) for one in missing]}
    )
    terminal.warn(told(missing, target.command))
    terminal.warn(unseen_told(behind))
    if not forecasts and behind and reason is None:
        return int(bool(missing))
    if not forecasts:
        terminal.plain("The dead-letter queue is empty." if reason is None else _no_such_reason(reason, everything))
        return int(bool(missing))
    shown = table(
        f"Dead letters of {target.stack_name}", "Reason", "A redrive would", "Messages", "Oldest", numbers=(2, 3)
    )
    for why, outlook, members in grouped(forecasts):
        shown.add_row(why, WOULD[outlook.value], f"{len(members):,}", age(min(each.letter.sent for each in members)))
    terminal.show(shown)
    show_some(terminal, forecasts)
    return int(bool(missing))


@dlq.command(short_help="One of its messages, without its body.")
@click.argument("message_id", metavar="MESSAGE_ID", type=MessageId())
@stack_option
@json_option
def show(message_id: str, stack: str | None, as_json: bool) -> int:
    """Show what is known of a dead letter. MESSAGE_ID may be SQS's own id. Its body names a patient and is not shown.

    Exit status 1 also if a table is missing that had to be asked.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    missing: list[Missing] = []
    everything = _look(terminal, target, missing)
    found = Selection(ids=(message_id,)).chosen(everything)
    if not found:
        told_of_it = [f"The dead-letter queue of {target.stack_name} has no message {message_id}."]
        raise OneslotError(" ".join([*told_of_it, *unseen_told(_unseen(target, everything))]))
    terminal.result(document_of(target, found) | {"missing": [asdict(one) for one in missing]})
    terminal.warn(told(missing, target.command))
    for each in found:
        shown = table(name_of(each), "What", "Value")
        for name, value in each.document().items():
            if name == "sent":
                shown.add_row("age", age(value))
            elif name == "ledger":
                shown.add_row("ledger", row_text(value))
            elif value is not None:
                shown.add_row(name.replace("_", " "), str(value))
        terminal.show(shown)
    return int(bool(missing))


@dlq.command(short_help="Send its messages through again.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="Every message; on AWS by SQS's own move task.")
@click.option("--even-failing", is_flag=True, help="Also those that would fail again, and come back.")
@click.option("--batches", is_flag=True, help="On AWS, too: receive, send, delete, from here.")
@click.option(
    "--rate",
    type=Number(min=0.1, max=FASTEST),
    metavar="N",
    default=100.0,
    show_default=True,
    help="Messages a second, at most.",
)
@click.option("--resume", is_flag=True, help="Go on with the redrive that was interrupted.")
@click.option("--abandon", is_flag=True, help="Give it up instead: what it has not moved stays where it is.")
@yes_option
@stack_option
@json_option
def redrive(  # noqa: PLR0917 - click passes them by name
    ids: Sequence[str],
    file: Path | None,
    reason: str | None,
    everything: bool,
    even_failing: bool,
    batches: bool,
    rate: float,
    resume: bool,
    abandon: bool,
    yes: bool,
    stack: str | None,
    as_json: bool,
) -> int:
    """Send dead letters to the queue again. Without --yes: say what would be done, and do nothing.

    Taken are, of those named (or of all), the messages that a redrive would help. A message is deleted only when the queue
    has accepted it, and what was sent is noted in a journal: after a crash, --resume goes on. Whatever is sent twice all the
    same is answered once: that is what the ledger is for.
    """
    selection = select(ids, file, reason, everything=everything)
    if (resume or abandon) and selection.given:
        raise BadInput("--resume goes on with what was chosen before; leave out the ids, --file, --reason and --all.")
    terminal = Terminal(as_json)
    target = open_target(stack)
    if resume or abandon:
        return _resume(terminal, target, abandon=abandon, yes=yes)
    forecasts, behind = _look_to_change(terminal, target)
    missing = selection.missing(forecasts)
    chosen = selection.chosen(forecasts)
    taken = [each for each in chosen if each.helps or even_failing or everything]
    by_task = everything and target.local is None and not batches
    document = document_of(target, taken) | {
        "selection": selection.document(),
        "left_alone": [each.document() for each in chosen if each not in taken],
        "not_found": missing,
        "waiting_behind": behind,
        "method": "move_task" if by_task else "batches",
    }
    left = len(chosen) - len(taken)
    status = _status(selection, missing=missing, taken=len(taken), left=left)
    _show_plan(terminal, target, taken, left, missing)
    _say_no_such_reason(terminal, selection, chosen, forecasts)
    if not taken or not confirmed(terminal, f"Send {len(taken):,} message(s) through again?", yes=yes):
        terminal.result(document | {"moved": 0, "dry_run": not yes})
        return status
    if by_task:
        outcome = _by_task(terminal, target, rate, len(taken))
    else:
        trail = open_trail(target)
        planned = frozenset(each.letter.sqs_message_id for each in taken)
        journal = begin_journal(target, planned, rate, trail.who)
        outcome = _in_batches(terminal, target, journal)
    terminal.result(document | outcome | {"dry_run": False})
    return status if outcome["complete"] else 1


@dlq.command(short_help="Delete messages from it, for good.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="Every message.")
@click.option("--accept-loss", is_flag=True, help="Also requests that have no answer yet: they never get one.")
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
    """Delete dead letters. Without --yes: say what would be done, and do nothing.

    Dropped are those whose request has its answer already. A request without an answer would be lost: that takes
    --accept-loss, too. Each drop leaves a line in the audit trail, by which `oneslot check` knows of it.
    """
    selection = select(ids, file, reason, everything=everything)
    if not selection.given:
        raise BadInput("Say which: message ids, --file, --reason or --all.")
    terminal = Terminal(as_json)
    target = open_target(stack)
    forecasts, behind = _look_to_change(terminal, target)
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
    terminal.plain(f"To be dropped: {len(taken):,} message(s), of which {unanswered(taken.values())} have no answer.")
    status = _status(selection, missing=missing, taken=len(taken), left=len(spared))
    if spared:
        terminal.plain(f"Left alone: {len(spared):,} whose request has no answer; --accept-loss drops them, too.")
    if spared and not taken:
        terminal.warn(["Nothing is dropped."])
    say_not_found(terminal, missing)
    _say_no_such_reason(terminal, selection, chosen, forecasts)
    show_some(terminal, list(taken.values()))
    if not taken or not confirmed(terminal, f"Delete {len(taken):,} message(s) for good?", yes=yes):
        terminal.result(document | {"dropped": 0, "dry_run": not yes})
        return status
    trail = open_trail(target)
    with terminal.progress("Dropping", len(taken)) as progress:
        gone = drop_letters(target, taken, trail, progress)
    terminal.result(document | {"dropped": len(gone), "dry_run": False, "audit_trail": str(trail.path)})
    terminal.plain(f"{len(gone):,} of {len(taken):,} message(s) dropped; each has its line in {trail.path}.")
    return status if len(gone) == len(taken) else 1


RESUME = "dlq redrive --resume --yes"


def _look(terminal: Terminal, target: Target, missing: list[Missing]) -> list[Forecast]:
    with terminal.working("Reading the dead-letter queue"):
        return forecast_all(target, missing)


def _unseen(target: Target, seen: Sequence[Forecast]) -> int:
    return waiting_behind(target.sqs, target.outputs.dead_letter_queue_url, len(seen))


def _look_to_change(terminal: Terminal, target: Target) -> tuple[list[Forecast], int]:
    """Return what is seen, and about how many are not.

    Raises `OneslotError` if a table is missing: nobody can tell then whom a change helps, and what it loses.
    """
    missing: list[Missing] = []
    forecasts = _look(terminal, target, missing)
    if missing:
        raise OneslotError(" ".join(["Nothing was changed.", *told(missing, target.command)]))
    behind = _unseen(target, forecasts)
    terminal.warn(unseen_told(behind))
    return forecasts, behind


def _say_no_such_reason(
    terminal: Terminal, selection: Selection, chosen: Sequence[Forecast], everything: Sequence[Forecast]
) -> None:
    if selection.reason is not None and not chosen and not selection.ids:
        terminal.plain(_no_such_reason(selection.reason, everything))


def _no_such_reason(reason: str, everything: Sequence[Forecast]) -> str:
    """Which reasons there are instead: the one that was asked for may be misspelt."""
    others = ", ".join(sorted({each.letter.reason for each in everything}))
    return f"No message has the reason {reason}" + (f"; there are {others}." if others else ".")


def _status(selection: Selection, *, missing: Sequence[str], taken: int, left: int) -> int:
    """1 if not all was done, or can be: an id was not found or its message left alone, or all that was chosen was.

    Where nothing was chosen, what cannot be helped is no part of what was asked for.
    """
    return int(bool(missing) or (left > 0 and selection.given and (taken == 0 or bool(selection.ids))))


def _resume(terminal: Terminal, target: Target, *, abandon: bool, yes: bool) -> int:
    journal = open_journal(target)
    if journal is None:
        raise OneslotError(f"No redrive of {target.stack_name} is unfinished.")
    terminal.plain(
        f"Interrupted: {len(journal.deleted):,} of {len(journal.planned):,} moved; {len(journal.sent - journal.deleted):,} "
        f"sent and still to be deleted; {len(journal.planned - journal.sent - set(journal.refused)):,} still to be sent."
    )
    if not confirmed(terminal, "Give it up?" if abandon else "Go on?", yes=yes):
        terminal.result({"stack_name": target.stack_name, "left": len(journal.left), "moved": 0, "dry_run": True})
        return 0
    if abandon:
        kept = _finish(journal)
        terminal.result({"stack_name": target.stack_name, "left": len(journal.left), "moved": 0, "journal": str(kept)})
        terminal.plain(f"Given up. What it did is noted in {kept}; see what is left: {target.command('dlq list')}.")
        return 0
    outcome = _in_batches(terminal, target, journal)
    terminal.result({"stack_name": target.stack_name, **outcome, "dry_run": False})
    return 0 if outcome["complete"] else 1


def _in_batches(terminal: Terminal, target: Target, journal: Journal) -> dict[str, Any]:
    trail = open_trail(target)
    subject = {"run": journal.run}
    trail.write(REDRIVE, subject, BEGUN, planned=sorted(journal.left))
    try:
        with terminal.progress("Redriving", len(journal.left)) as progress:
            redriven = move_in_batches(target, journal, progress)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"Interrupted: {len(journal.deleted):,} of {len(journal.planned):,} message(s) moved; nothing is lost. Go on: "
            f"{target.command(RESUME)}; or give it up: --abandon."
        ) from interrupt
    kept = journal.path if redriven.unseen else _finish(journal)
    complete = not redriven.refused and not redriven.unseen
    trail.write(REDRIVE, subject, DONE if complete else NOT_DONE, moved=redriven.moved, refused=redriven.refused)
    terminal.plain(f"{redriven.moved:,} message(s) moved to the queue. The journal is {kept}.")
    if redriven.refused:
        codes = ", ".join(f"{count} {code}" for code, count in Counter(redriven.refused.values()).items())
        terminal.plain(f"The queue refuses for good, so they stay: {codes}.", style="red")
    if redriven.unseen:
        terminal.plain(
            f"{redriven.unseen:,} were not seen again: another reader hides them (a killed one for five minutes), or took "
            f"them away. Go on in a while: {target.command(RESUME)}; or give them up: --abandon.",
            style="red",
        )
    return {
        "moved": redriven.moved,
        "refused": redriven.refused,
        "unseen": redriven.unseen,
        "complete": complete,
        "journal": str(kept),
    }


def _finish(journal: Journal) -> Path:
    return journal.finish(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))


def _by_task(terminal: Terminal, target: Target, rate: float, count: int) -> dict[str, Any]:
    trail = open_trail(target)
    trail.write(REDRIVE, {"method": "move_task", "messages": count}, BEGUN)
    start_move(target, rate)
    terminal.say("SQS moves them now, also if you press Ctrl-C here.")
    with terminal.progress("Redriving", count) as progress:
        moved = follow_move(target, progress)
    trail.write(REDRIVE, {"method": "move_task"}, DONE if moved.completed else NOT_DONE, moved=moved.moved)
    terminal.plain(f"SQS's move task: {moved.status}, about {moved.moved:,} of {moved.to_move:,} message(s) moved.")
    if moved.failure:
        terminal.plain(
            f"It failed: {moved.failure}. Move in batches: {target.command('dlq redrive --all --batches')}.",
            style="red",
        )
    return {"moved": moved.moved, "status": moved.status, "failure": moved.failure, "complete": moved.completed}


def _show_plan(
    terminal: Terminal, target: Target, taken: Sequence[Forecast], left_alone: int, missing: Sequence[str]
) -> None:
    terminal.plain(f"To be sent through again: {len(taken):,} message(s).")
    if left_alone:
        terminal.plain(f"Left alone: {left_alone:,} that would fail again; see `{target.command('dlq list')}` for why.")
    if left_alone and not taken:
        terminal.warn(["Nothing is sent."])
    say_not_found(terminal, missing)
    show_some(terminal, taken)
