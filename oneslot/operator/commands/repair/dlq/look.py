"""`dlq list`: the dead letters, and what a redrive would do for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

import click
from botocore.exceptions import ClientError

from oneslot.operator.commands.frame import on_stack
from oneslot.operator.commands.repair.dlq.letters import age, document_of, no_such_reason, read_letters, show_some
from oneslot.operator.evidence.dead_letters import count_hidden, format_hidden
from oneslot.operator.evidence.deliveries import read_failures
from oneslot.operator.evidence.tables import Missing, format_missing
from oneslot.operator.repair.forecast import WOULD, Forecast, grouped
from oneslot.operator.repair.selection import Selection
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table
from oneslot.runtime.sqs.dead_letters import RECEIVES_EXHAUSTED


@click.command("list", short_help="List dead letters, and what a redrive would do.")
@click.option("--reason", metavar="CODE", help="List only the messages with this reason.")
@on_stack
def list_letters(terminal: Terminal, target: Target, reason: str | None) -> int:
    """List dead letters by reason. The ledger says what a redrive would do for each.

    Nothing is removed. Each look adds 1 to the messages' receive counts, which have no effect in a dead-letter queue.
    Exit status 1 if a table is missing; the messages are listed even so.
    """
    missing: list[Missing] = []
    everything = read_letters(terminal, target, missing)
    forecasts = with_failures(target, Selection(reason=reason).chosen(everything))
    behind = count_hidden(target, len(everything))
    terminal.result(
        document_of(target, forecasts) | {"waiting_behind": behind, "missing": [asdict(one) for one in missing]}
    )
    terminal.warn(format_missing(missing, target.command))
    terminal.warn(format_hidden(behind))
    if not forecasts and behind and reason is None:
        return int(bool(missing))
    if not forecasts:
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
