"""`status` and `watch`: a stack's queue, ledger and tables, once or until the queue is drained."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from oneslot.local.state import read_statistics
from oneslot.operator.evidence.malformed import Tally, format_malformed, tally
from oneslot.operator.evidence.observation import Observer, Snapshot, format_failing, until_drained
from oneslot.operator.evidence.tables import Missing, format_missing, unless_missing
from oneslot.operator.evidence.unsent import format_undelivered
from oneslot.operator.options import Number, on_stack
from oneslot.operator.repair.pausing import find_mapping_state
from oneslot.operator.target import Target
from oneslot.operator.terminal import SECONDS_BETWEEN_PLAIN_LINES, Terminal, table
from oneslot.wording import count_text, numbered

# SQS and CloudFormation charge per call; on loopback a call costs a millisecond.
LOCAL_INTERVAL, AWS_INTERVAL = 0.5, 5.0
OLD_SECONDS = 2.0
"""A count of the ledger older than this is shown with its age."""


@click.command(short_help="Count messages and the rows of each table.")
@on_stack
def status(terminal: Terminal, target: Target) -> int:
    """Count messages and the rows of each table. On AWS this costs a consistent scan of each table.

    Exit status 1 if a table is missing; the rest is shown even so.
    """
    with terminal.working("Counting"), ThreadPoolExecutor(3) as executor:
        observed = executor.submit(Observer(target).look)
        counting = {
            name: executor.submit(unless_missing, partial(tally, target, each), name, target.outputs.tables[name])
            for name, each in target.declaration.schema.tables.items()
        }
        snapshot = observed.result()
    tallies = {name: each.result() for name, each in counting.items()}
    counted = [each for each in tallies.values() if isinstance(each, Tally)]
    malformed = [*snapshot.malformed, *(one for each in counted for one in each.malformed)]
    missing = [*snapshot.missing, *(each for each in tallies.values() if isinstance(each, Missing))]
    statuses = {
        name: None if isinstance(each, Missing) else dict(sorted(each.statuses.items()))
        for name, each in tallies.items()
    }
    statistics = read_statistics(target.home) if target.local else None
    mapping, unread = find_mapping_state(target)
    document: dict[str, Any] = {
        "stack_name": target.stack_name,
        "mapping": mapping and mapping.document(),
        "endpoint_url": target.local.endpoint_url if target.local else None,
        "queue": asdict(snapshot.queue),
        "dead_letters": snapshot.dead_letters,
        "ledger": snapshot.ledger,
        **statuses,
        "failing": [asdict(one) for one in snapshot.failing],
        "undelivered": snapshot.undelivered and asdict(snapshot.undelivered),
        "missing": [asdict(one) for one in missing],
        "malformed": [asdict(one) for one in malformed],
        "poller": asdict(statistics) if statistics else None,
    }
    terminal.result(document)
    if mapping and mapping.off:
        terminal.plain(mapping.sentence(target), style="bold yellow")
    terminal.warn(unread)
    shown = table(f"{target.stack_name} at {document['endpoint_url'] or 'AWS'}", "What", "State", "Count", numbers=(2,))
    for what, counts in (
        ("queue", document["queue"]),
        ("dead-letter queue", {"messages": snapshot.dead_letters}),
        ("ledger", document["ledger"]),
        *statuses.items(),
    ):
        for name, count in (counts or {"none": 0} if counts is not None else {"any": None}).items():
            shown.add_row(what, name.replace("_", " "), count_text(count))
            what = ""  # noqa: PLW2901 - shown once for its rows
        shown.add_section()
    if statistics:
        shown.add_row("local poller", "records handled", f"{statistics.records:,}")
        shown.add_row("", "function errors", f"{statistics.function_errors:,}")
    terminal.show(shown)
    terminal.warn(format_failing(snapshot.failing, target.command))
    terminal.warn(format_undelivered(snapshot.undelivered, target.command))
    terminal.warn(format_malformed(malformed, target.command))
    terminal.warn(format_missing(missing, target.command))
    return int(bool(missing))


@click.command(short_help="Watch the queue drain.")
@click.option("--until-drained", is_flag=True, help="Stop when the queue is empty.")
@click.option("--timeout", type=Number(min=0, min_open=True), metavar="SECONDS", help="Stop after this time.")
@on_stack
def watch(terminal: Terminal, target: Target, *, until_drained: bool, timeout: float | None) -> int:
    """Show queue, ledger, rate and time left, until the queue is drained or you press Ctrl-C."""
    interval = LOCAL_INTERVAL if target.local else AWS_INTERVAL
    snapshot = follow(target, terminal, interval=interval, timeout=timeout, drain=until_drained)
    if snapshot is None:
        raise KeyboardInterrupt("Interrupted before the first snapshot.")
    mapping, unread = find_mapping_state(target)
    terminal.result({"stack_name": target.stack_name, "mapping": mapping and mapping.document(), **asdict(snapshot)})
    if mapping and mapping.off:
        terminal.plain(mapping.sentence(target), style="bold yellow")
    terminal.warn(unread)
    terminal.warn(format_malformed(snapshot.malformed, target.command))
    terminal.warn(format_missing(snapshot.missing, target.command))
    terminal.warn(format_failing(snapshot.failing, target.command))
    terminal.warn(format_undelivered(snapshot.undelivered, target.command))
    if until_drained and not snapshot.drained:
        unsure = "Not known to be drained: SQS's counts are approximate, so the queue must look empty three times. Wait longer."
        left = f"Not drained: {numbered(snapshot.queue.total, 'message')} left."
        terminal.say(unsure if snapshot.queue.empty else left, style="red")
        return 1
    return int(bool(snapshot.missing))


def follow(
    target: Target, terminal: Terminal, *, interval: float, timeout: float | None, drain: bool
) -> Snapshot | None:
    """Show snapshots until the queue is drained (without `drain`, for ever), the timeout, or Ctrl-C. Return the last."""
    observer = Observer(target)
    snapshot: Snapshot | None = None
    said_at, said = 0.0, ""
    try:
        for snapshot in until_drained(observer, interval=interval, timeout=timeout, for_ever=not drain):
            mapping, _ = find_mapping_state(target)
            stopped = mapping and ("PAUSED; " * mapping.off + "the function does not start; " * len(mapping.problems))
            line, over = f"{stopped or ''}{_line(snapshot)}", snapshot.drained and drain
            if line != said if over else time.monotonic() - said_at >= SECONDS_BETWEEN_PLAIN_LINES:
                said_at, said = time.monotonic(), line
                terminal.say(line)
    except KeyboardInterrupt:
        if drain:
            raise
    return snapshot


def _line(snapshot: Snapshot) -> str:
    queue = snapshot.queue
    ago = snapshot.counted_seconds_ago  # a large ledger is counted more rarely than the queue
    age = f", {ago:,.0f} s ago" if ago >= OLD_SECONDS else ""
    kinds = Counter(map(str, snapshot.failing)).most_common()
    failing = (
        f"; failed again and again: {', '.join(f'{count:,} with {kind}' for kind, count in kinds)}" if kinds else ""
    )
    return (
        f"queue {queue.waiting:,} waiting, {queue.in_flight:,} in flight; dead letters {snapshot.dead_letters:,}; "
        f"ledger {count_text(snapshot.ledger['complete'])} complete, {count_text(snapshot.ledger['in_progress'])} in progress"
        f"{age}{_speed(snapshot)}{failing}"
    )


def _speed(snapshot: Snapshot) -> str:
    if not snapshot.queue.waiting and snapshot.queue.in_flight:
        return "; the rest is being processed, or hidden until its next delivery"
    if snapshot.rate is None or snapshot.seconds_left is None:
        return ""
    return f"; {snapshot.rate:,.0f} messages/s, about {snapshot.seconds_left:,.0f} s left"
