"""`dlq`: list the dead letters with what a redrive would do, send them through again, or delete them for good."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from botocore.exceptions import ClientError

from oneslot.errors import InvalidArguments, TableMissing
from oneslot.operator.evidence.dead_letters import count_hidden, format_hidden
from oneslot.operator.evidence.deliveries import read_failures
from oneslot.operator.evidence.operator_log import BEGUN, DONE, NOT_DONE, open_operator_log
from oneslot.operator.evidence.tables import Missing, format_missing
from oneslot.operator.options import FILE, MessageId, Number, on_stack, yes_option
from oneslot.operator.repair.forecast import WOULD, Forecast, forecast_all, grouped
from oneslot.operator.repair.redrive import Redrive
from oneslot.operator.repair.redrive import drop as drop_letters
from oneslot.operator.repair.redrive import redrive as move_letters
from oneslot.operator.repair.selection import Selection, count_reordered_groups, select
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table
from oneslot.runtime.sqs.dead_letters import RECEIVES_EXHAUSTED
from oneslot.wording import numbered

SHOWN = 20
BESIDE_ID = 42  # columns for the rest of a row: a UUID in brackets stays whole on a terminal of eighty


@click.group(short_help="Inspect dead letters; redrive or drop them.")
def dlq() -> None:
    """Inspect the dead-letter queue, and repair what is in it. Looking removes nothing; changes need --yes."""


def selecting(verb: Callable[..., Any], *, needed: bool = False) -> Callable[..., Any]:
    """Add message ids as arguments, `--file`, `--reason` and `--all`. Pass the dead letters on as `selection`."""

    @click.argument("ids", nargs=-1, metavar="[MESSAGE_ID]...", type=MessageId())
    @click.option("--file", type=FILE, metavar="FILE", help="Select the messages of the audit's repair/redrive.jsonl.")
    @click.option("--reason", metavar="CODE", help="Select the messages with this reason, e.g. receives_exhausted.")
    @click.option("--all", "everything", is_flag=True, help="Select every message.")
    @wraps(verb)
    def selected(ids: Sequence[str], file: Path | None, reason: str | None, *, everything: bool, **more: Any) -> Any:
        selection = select(ids, file, reason, everything=everything)
        if needed and not selection.given:
            raise InvalidArguments("Select the messages to drop: give message ids, --file, --reason or --all.")
        return verb(selection=selection, **more)

    return selected


def read_letters(terminal: Terminal, target: Target) -> tuple[list[Forecast], list[Missing]]:
    """Return a forecast for each visible dead letter, and the missing tables that these needed."""
    with terminal.working("Reading the dead-letter queue"):
        return forecast_all(target)


@dataclass(frozen=True)
class Chosen:
    """A change of dead letters: those that it takes, and those of the selection that it leaves.

    `everything` is what the queue showed; about `behind` messages are hidden.
    """

    selection: Selection
    everything: Sequence[Forecast]
    behind: int
    taken: Sequence[Forecast]
    left: Sequence[Forecast]

    @property
    def missing(self) -> list[str]:
        """The ids that were asked for and that no dead letter has."""
        return self.selection.missing(self.everything)

    @property
    def exit_status(self) -> int:
        """1 if a message that was asked for is missing or left, or if every chosen one is left; else 0.

        Without a selection, messages that a redrive cannot help are not part of the request.
        """
        refused = self.left and self.selection.given and (not self.taken or bool(self.selection.ids))
        return int(bool(self.missing or refused))

    def document(self, target: Target, left_as: str, **more: Any) -> dict[str, Any]:
        """Return it as JSON, the messages that are left under the name `left_as`."""
        return document_of(target, self.taken) | {
            "selection": asdict(self.selection),
            left_as: [each.document() for each in self.left],
            "not_found": self.missing,
            "waiting_behind": self.behind,
            **more,
        }

    def show(self, terminal: Terminal, head: str, *, why_left: str, nothing: str) -> None:
        """Show what is taken below `head`, and what is left; `nothing` is the sentence where that is everything."""
        terminal.plain(head)
        if self.left:
            terminal.plain(f"Left: {len(self.left):,} {why_left}")
        if self.left and not self.taken:
            terminal.warn([nothing])
        if self.missing:
            more = f" and {len(self.missing) - SHOWN:,} more" if len(self.missing) > SHOWN else ""
            terminal.plain(f"Not in the dead-letter queue: {', '.join(self.missing[:SHOWN])}{more}.", style="red")
        reason = self.selection.reason
        if reason is not None and not self.taken and not self.left and not self.selection.ids:
            terminal.plain(no_such_reason(reason, self.everything))
        show_some(terminal, self.taken)


def choose(terminal: Terminal, target: Target, selection: Selection, takes: Callable[[Forecast], bool]) -> Chosen:
    """Read the queue and divide the selection by `takes`.

    Raises `TableMissing`: the effect of a change cannot be foretold without each table.
    """
    everything, missing = read_letters(terminal, target)
    if missing:
        raise TableMissing(" ".join(["Nothing was changed.", *format_missing(missing, target.command)]))
    behind = count_hidden(target, len(everything))
    terminal.warn(format_hidden(behind))
    chosen = selection.chosen(everything)
    taken = [each for each in chosen if takes(each)]
    return Chosen(selection, everything, behind, taken, [each for each in chosen if not takes(each)])


def no_such_reason(reason: str, everything: Sequence[Forecast]) -> str:
    """Return which reasons there are instead: the one that was asked for may be misspelt."""
    others = ", ".join(sorted({each.letter.reason for each in everything}))
    return f"No message has the reason {reason}" + (f"; the reasons are {others}." if others else ".")


def show_some(terminal: Terminal, forecasts: Sequence[Forecast]) -> None:
    """Show the first forecasts, each with what a redrive would do."""
    if not forecasts:
        return
    if max(len(name_of(each)) for each in forecasts[:SHOWN]) > terminal.out.width - BESIDE_ID:
        for each in forecasts[:SHOWN]:
            terminal.plain(name_of(each))
            terminal.plain(f"  {age(each.letter.sent)}, {reason_of(each)}: {each.because}")
    else:
        shown = table("Messages", "Message", "Age", "Reason", "What a redrive would do", numbers=(1,))
        shown.columns[0].no_wrap = True
        for each in forecasts[:SHOWN]:
            shown.add_row(name_of(each), age(each.letter.sent), reason_of(each), each.because)
        terminal.show(shown)
    if len(forecasts) > SHOWN:
        terminal.plain(f"... and {len(forecasts) - SHOWN:,} more: see --json.")


def document_of(target: Target, forecasts: Sequence[Forecast]) -> dict[str, Any]:
    """Return these dead letters as a document."""
    return {
        "stack_name": target.stack_name,
        "count": len(forecasts),
        "reasons": dict(sorted(Counter(each.letter.reason for each in forecasts).items())),
        "outlooks": dict(sorted(Counter(each.outlook.value for each in forecasts).items())),
        "messages": [each.document() for each in forecasts],
    }


def name_of(forecast: Forecast) -> str:
    """Return the message id, or in brackets the SQS id that the producer received."""
    return forecast.letter.message_id or f"({forecast.letter.original_sqs_message_id})"


def reason_of(forecast: Forecast) -> str:
    """Return the reason, and the last exception of a message that failed all its receives: class, file name and line."""
    if forecast.failure is None:
        return forecast.letter.reason
    return f"{forecast.letter.reason} ({forecast.failure})"


def age(sent_ms: int) -> str:
    """Return how long ago a time (epoch ms) is, in the largest unit of which there are at least two."""
    seconds = max(0, int(time.time() - sent_ms / 1000))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


@dlq.command("list", short_help="List dead letters, and what a redrive would do.")
@click.option("--reason", metavar="CODE", help="List only the messages with this reason.")
@on_stack
def list_letters(terminal: Terminal, target: Target, reason: str | None) -> int:
    """List dead letters by reason. The ledger says what a redrive would do for each.

    Nothing is removed. Each look adds 1 to the messages' receive counts, which have no effect in a dead-letter queue.
    Exit status 1 if a table is missing; the messages are listed even so.
    """
    everything, missing = read_letters(terminal, target)
    forecasts = with_failures(target, Selection(reason=reason).chosen(everything))
    behind = count_hidden(target, len(everything))
    terminal.result(
        document_of(target, forecasts) | {"waiting_behind": behind, "missing": [asdict(one) for one in missing]}
    )
    terminal.warn(format_missing(missing, target.command))
    terminal.warn(format_hidden(behind))
    if not forecasts:
        if reason is not None or not behind:
            terminal.plain("The dead-letter queue is empty." if reason is None else no_such_reason(reason, everything))
        return int(bool(missing))
    shown = table(
        f"Dead letters of {target.stack_name}", "Reason", "A redrive would", "Messages", "Oldest", numbers=(2, 3)
    )
    for why, outlook, members in grouped(forecasts):
        shown.add_row(why, WOULD[outlook], f"{len(members):,}", age(min(each.letter.sent for each in members)))
    terminal.show(shown)
    show_some(terminal, forecasts)
    terminal.warn(format_unknown(target, forecasts))
    return int(bool(missing))


def with_failures(target: Target, forecasts: Sequence[Forecast]) -> list[Forecast]:
    """Return the forecasts, those that failed all their receives with their last failure.

    On AWS it is read for a single message only: a search of the log for all of them can take minutes.
    """
    exhausted = [each.letter for each in forecasts if each.letter.reason == RECEIVES_EXHAUSTED]
    if not exhausted or (target.local is None and len(exhausted) > 1):
        return list(forecasts)
    mentioned = exhausted[0].original_sqs_message_id if target.local is None else None
    with suppress(ClientError):  # the rest is shown where the log may not be read
        found = read_failures(target, since_ms=exhausted[0].sent if mentioned else 0, mentioning=mentioned)
        return [replace(each, failure=found.get(each.letter.original_sqs_message_id)) for each in forecasts]
    return list(forecasts)


def format_unknown(target: Target, forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield where to look for the exceptions of messages that failed all their receives, if some are not shown."""
    if not any(each.letter.reason == RECEIVES_EXHAUSTED and each.failure is None for each in forecasts):
        return
    yield f"The delivery log names the exception of each delivery: {target.command('inspect MESSAGE_ID')}."
    if target.local is None:
        yield (
            f"For all of them, ask CloudWatch Logs Insights about {target.outputs.consumer_log_group_name}: "
            'filter message = "delivery" and outcome = "failed" | stats count(*) by reason, where'
        )


REDRIVE = "dlq redrive"
AGAIN = "Run the command again in five minutes: a message that was sent twice takes effect once."


@dlq.command(short_help="Send dead letters to the queue again.")
@selecting
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
@on_stack
def redrive(
    terminal: Terminal, target: Target, *, selection: Selection, even_failing: bool, rate: float, yes: bool
) -> int:
    """Send dead letters to the queue again. Without --yes, only say what would be sent.

    Messages that would fail again stay; on a FIFO queue their group can lose its order. A message is deleted only after
    the queue has accepted it, so after a crash run the command again. By the ledger, a message that is sent twice takes
    effect once.
    """
    chosen = choose(terminal, target, selection, lambda each: each.helps or even_failing or selection.everything)
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
    outcome = move_in_batches(terminal, target, chosen.taken, rate)
    terminal.result(document | outcome | {"dry_run": False})
    return chosen.exit_status if outcome["complete"] else 1


def move_in_batches(terminal: Terminal, target: Target, taken: Sequence[Forecast], rate: float) -> dict[str, Any]:
    """Move these messages, say how it ended, and return that as a document."""
    log = open_operator_log(target)
    planned = frozenset(each.letter.sqs_message_id for each in taken)
    one = Redrive(planned, rate, target.surroundings.new_id())
    subject = {"run": one.run, "message_ids": sorted({each.letter.message_id or "" for each in taken} - {""})}
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


@dlq.command(short_help="Delete dead letters for good.")
@partial(selecting, needed=True)
@click.option("--accept-loss", is_flag=True, help="Include requests without an answer, which then never get one.")
@yes_option
@on_stack
def drop(terminal: Terminal, target: Target, *, selection: Selection, accept_loss: bool, yes: bool) -> int:
    """Delete dead letters for good. Without --yes, only say what would be deleted.

    A message is deleted if its request has an answer. A request without one would be lost: deleting it needs
    --accept-loss. The operator log keeps a line for each, by which `oneslot check` accounts for it.
    """
    chosen = choose(terminal, target, selection, lambda each: each.finished or accept_loss)
    document = chosen.document(target, "spared")
    lost = sum(not each.finished for each in chosen.taken)
    chosen.show(
        terminal,
        f"To drop: {numbered(len(chosen.taken), 'message')}, {lost:,} of them without an answer.",
        why_left="whose content has no answer. Drop them with --accept-loss.",
        nothing="Nothing was dropped.",
    )
    if not chosen.taken or not terminal.goes_ahead(yes=yes):
        terminal.result(document | {"dropped": 0, "dry_run": not yes})
        return chosen.exit_status
    log = open_operator_log(target)
    with terminal.progress("Dropping", len(chosen.taken)) as progress:
        gone = len(drop_letters(target, {each.letter.sqs_message_id: each for each in chosen.taken}, log, progress))
    terminal.result(document | {"dropped": gone, "dry_run": False, "operator_log": str(log.path)})
    terminal.plain(f"{gone:,} of {numbered(len(chosen.taken), 'message')} dropped. The operator log is {log.path}.")
    return chosen.exit_status if gone == len(chosen.taken) else 1
