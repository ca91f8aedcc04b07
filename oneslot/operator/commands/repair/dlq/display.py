"""Dead letters as a table for people, and as a document for programs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from oneslot.operator.repair.forecast import Forecast
from oneslot.target import Target
from oneslot.terminal import Terminal, table

SHOWN = 20
BESIDE_ID = 42  # columns for the rest of a row: a UUID in brackets stays whole on a terminal of eighty
SECONDS_A_DAY, SECONDS_AN_HOUR, SECONDS_A_MINUTE = 86_400, 3_600, 60


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
