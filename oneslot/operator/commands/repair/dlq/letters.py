"""Dead letters: read, chosen, and shown as a table for people and as a document for programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from oneslot.errors import TableMissing
from oneslot.operator.evidence.dead_letters import count_hidden, format_hidden
from oneslot.operator.evidence.tables import Missing, format_missing
from oneslot.operator.options import FILE, MessageId
from oneslot.operator.repair.forecast import Forecast, forecast_all
from oneslot.operator.repair.selection import Selection
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 20
BESIDE_ID = 42  # columns for the rest of a row: a UUID in brackets stays whole on a terminal of eighty
SECONDS_A_DAY, SECONDS_AN_HOUR, SECONDS_A_MINUTE = 86_400, 3_600, 60


def selection_options(function: F) -> F:
    """Message ids as arguments, `--file` and `--reason`: the selection of dead letters."""
    for option in (
        click.option("--reason", metavar="CODE", help="Select the messages with this reason, e.g. receives_exhausted."),
        click.option(
            "--file",
            type=FILE,
            metavar="FILE",
            help="Select the messages of the audit's repair/redrive.jsonl.",
        ),
        click.argument("ids", nargs=-1, metavar="[MESSAGE_ID]...", type=MessageId()),
    ):
        function = option(function)
    return function


def read_letters(terminal: Terminal, target: Target, missing: list[Missing]) -> list[Forecast]:
    """Return a forecast for each visible dead letter; append the tables that are missing to `missing`."""
    with terminal.working("Reading the dead-letter queue"):
        return forecast_all(target, missing)


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
            "selection": self.selection.document(),
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
        say_not_found(terminal, self.missing)
        reason = self.selection.reason
        if reason is not None and not self.taken and not self.left and not self.selection.ids:
            terminal.plain(no_such_reason(reason, self.everything))
        show_some(terminal, self.taken)


def choose(terminal: Terminal, target: Target, selection: Selection, takes: Callable[[Forecast], bool]) -> Chosen:
    """Read the queue and divide the selection by `takes`.

    Raises `TableMissing`: the effect of a change cannot be foretold without each table.
    """
    missing: list[Missing] = []
    everything = read_letters(terminal, target, missing)
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


def say_not_found(terminal: Terminal, missing: Sequence[str]) -> None:
    """Say which of the ids that were asked for no dead letter has."""
    if missing:
        more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
        terminal.plain(f"Not in the dead-letter queue: {', '.join(missing[:SHOWN])}{more}.", style="red")


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


def unanswered(forecasts: Iterable[Forecast]) -> str:
    """Return how many of them have no answer yet."""
    return f"{sum(not each.finished for each in forecasts):,}"


def name_of(forecast: Forecast) -> str:
    """Return the message id, or in brackets the SQS id that the producer received."""
    return forecast.letter.message_id or f"({forecast.letter.original_sqs_message_id})"


def reason_of(forecast: Forecast) -> str:
    """Return the reason, and the last exception of a message that failed all its receives: class, file name and line."""
    if forecast.failure is None:
        return forecast.letter.reason
    return f"{forecast.letter.reason} ({forecast.failure.short})"


def age(sent_ms: int) -> str:
    """Return how long ago a time (epoch ms) is, in the largest unit of which there are at least two."""
    seconds = max(0, int(time.time() - sent_ms / 1000))
    for unit, length in (("d", SECONDS_A_DAY), ("h", SECONDS_AN_HOUR), ("min", SECONDS_A_MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
