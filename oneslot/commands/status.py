"""`status`: one look. `watch`: looking on."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import click
from rich.live import Live
from rich.table import Table

from oneslot.evidence.missing import Missing, told, unless_missing
from oneslot.evidence.observation import Observer, Snapshot, until_drained
from oneslot.evidence.unusable import Table as Which
from oneslot.evidence.unusable import Tally, sentences, tally
from oneslot.local.state import read_statistics
from oneslot.options import Number, json_option, stack_option
from oneslot.sentences import numbered
from oneslot.target import Target, open_target
from oneslot.terminal import SECONDS_BETWEEN_PLAIN_LINES, Terminal, count_text, table

# SQS's and CloudFormation's prices are per call; on loopback a call costs a millisecond.
LOCAL_INTERVAL, AWS_INTERVAL = 0.5, 5.0
# A count of the ledger that is older than this is shown with its age.
OLD_SECONDS = 2.0


@click.command(short_help="What is there now: queues, ledger, slots, appointments.")
@stack_option
@json_option
def status(stack: str | None, as_json: bool) -> int:
    """Look once. Counting reads all three tables; on AWS that costs a consistent scan of each.

    Exit status 1 if a table is missing; the rest is shown all the same.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    outputs = target.outputs
    with terminal.working("Counting"), ThreadPoolExecutor(3) as executor:
        observed = executor.submit(Observer(target).look)
        slots = executor.submit(_tally, target, outputs.slots_table_name, "slots")
        appointments = executor.submit(_tally, target, outputs.appointments_table_name, "appointments")
        snapshot = observed.result()
    tallies = (slots.result(), appointments.result())
    unusable = [*snapshot.unusable, *(one for each in tallies if isinstance(each, Tally) for one in each.unusable)]
    missing = [*snapshot.missing, *(each for each in tallies if isinstance(each, Missing))]
    statistics = read_statistics(target.home) if target.local else None
    document: dict[str, Any] = {
        "stack_name": target.stack_name,
        "endpoint_url": target.local.endpoint_url if target.local else None,
        "queue": asdict(snapshot.queue),
        "dead_letters": snapshot.dead_letters,
        "ledger": {
            "complete": snapshot.complete,
            "in_progress": snapshot.in_progress,
            "released": snapshot.released,
            "unknown": snapshot.unknown,
        },
        "slots": _statuses(tallies[0]),
        "appointments": _statuses(tallies[1]),
        "missing": [asdict(one) for one in missing],
        "unusable": [asdict(one) for one in unusable],
        "poller": statistics.to_json() if statistics else None,
    }
    terminal.result(document)
    shown = table(f"{target.stack_name} at {document['endpoint_url'] or 'AWS'}", "What", "State", "Count", numbers=(2,))
    for what, counts in (
        ("queue", document["queue"]),
        ("dead-letter queue", {"messages": snapshot.dead_letters}),
        ("ledger", document["ledger"]),
        ("slots", document["slots"]),
        ("appointments", document["appointments"]),
    ):
        for name, count in (counts or {"none": 0} if counts is not None else {"any": None}).items():
            shown.add_row(what, name.replace("_", " "), count_text(count))
            what = ""  # noqa: PLW2901 - said once for its rows
        shown.add_section()
    if statistics:
        shown.add_row("local poller", "records handled", f"{statistics.records:,}")
        shown.add_row("", "function errors", f"{statistics.function_errors:,}")
    terminal.show(shown)
    terminal.warn(sentences(unusable, target.command))
    terminal.warn(told(missing, target.command))
    return int(bool(missing))


def _tally(target: Target, name: str, which: Which) -> Tally | Missing:
    return unless_missing(lambda: tally(target.dynamodb, name, which), which, name)


def _statuses(counted: Tally | Missing) -> dict[str, int] | None:
    return None if isinstance(counted, Missing) else dict(sorted(counted.statuses.items()))


@click.command(short_help="Look on while the queue is worked off.")
@click.option("--until-drained", is_flag=True, help="End when the queue is empty.")
@click.option("--timeout", type=Number(min=0, min_open=True), metavar="SECONDS", help="Give up after so long.")
@click.option("--interval", type=Number(min=0.1), metavar="SECONDS", help="Between looks. Default: 0.5, on AWS 5.")
@stack_option
@json_option
def watch(until_drained: bool, timeout: float | None, interval: float | None, stack: str | None, as_json: bool) -> int:
    """Show queue, ledger, rate and time left, until the queue is drained or you press Ctrl-C."""
    terminal = Terminal(as_json)
    target = open_target(stack)
    interval = interval or (LOCAL_INTERVAL if target.local else AWS_INTERVAL)
    snapshot = follow(target, terminal, interval=interval, timeout=timeout, drain=until_drained)
    if snapshot is None:
        raise KeyboardInterrupt("Interrupted before the first look.")
    terminal.result({"stack_name": target.stack_name, **snapshot.document()})
    terminal.warn(sentences(snapshot.unusable, target.command))
    terminal.warn(told(snapshot.missing, target.command))
    if until_drained and not snapshot.drained:
        terminal.say(f"Not drained: {numbered(snapshot.queue.total, 'message')} left.", style="red")
        return 1
    return int(bool(snapshot.missing))


def follow(
    target: Target, terminal: Terminal, *, interval: float, timeout: float | None, drain: bool
) -> Snapshot | None:
    """Show snapshots until the queue is drained (or, without `drain`, for ever), the time is over, or Ctrl-C."""
    observer = Observer(target)
    snapshot: Snapshot | None = None
    live = (
        Live(console=terminal.err, refresh_per_second=4) if terminal.err.is_terminal and not terminal.as_json else None
    )
    said_at, said = 0.0, ""
    try:
        if live:
            live.start()
        for snapshot in until_drained(observer, interval=interval, timeout=timeout, for_ever=not drain):
            if live:
                live.update(_table(target, snapshot))
                continue
            line, over = _line(snapshot), snapshot.drained and drain
            if line != said if over else time.monotonic() - said_at >= SECONDS_BETWEEN_PLAIN_LINES:
                said_at, said = time.monotonic(), line
                terminal.say(line)
    except KeyboardInterrupt:
        if drain:
            raise
    finally:
        if live:
            live.stop()
    return snapshot


def _line(snapshot: Snapshot) -> str:
    queue = snapshot.queue
    return (
        f"queue {queue.waiting:,} waiting, {queue.in_flight:,} in flight; dead letters {snapshot.dead_letters:,}; "
        f"ledger {count_text(snapshot.complete)} complete, {count_text(snapshot.in_progress)} in progress"
        f"{_age(snapshot)}{_speed(snapshot)}"
    )


def _age(snapshot: Snapshot) -> str:
    """How old the ledger's counts are, where the queue's are newer: reading a large ledger takes its time."""
    return f", {snapshot.counted_seconds_ago:,.0f} s ago" if snapshot.counted_seconds_ago >= OLD_SECONDS else ""


def _speed(snapshot: Snapshot) -> str:
    if not snapshot.queue.waiting and snapshot.queue.in_flight:
        return "; the rest is in work, or hidden until the lease of another copy ends"
    if snapshot.rate is None or snapshot.seconds_left is None:
        return ""
    return f"; {snapshot.rate:,.0f} messages/s, about {snapshot.seconds_left:,.0f} s left"


def _table(target: Target, snapshot: Snapshot) -> Table:
    shown = table(target.stack_name, "What", "Count", numbers=(1,))
    shown.add_row("waiting in the queue", f"{snapshot.queue.waiting:,}")
    shown.add_row("in flight", f"{snapshot.queue.in_flight:,}")
    shown.add_row("in the dead-letter queue", f"{snapshot.dead_letters:,}")
    shown.add_row(f"ledger: complete{_age(snapshot)}", count_text(snapshot.complete), style="green")
    shown.add_row(f"ledger: in progress{_age(snapshot)}", count_text(snapshot.in_progress))
    shown.add_row("messages a second", f"{snapshot.rate:,.0f}" if snapshot.rate else "-")
    shown.add_row("time left", "drained" if snapshot.drained else _time_left(snapshot))
    return shown


def _time_left(snapshot: Snapshot) -> str:
    return "-" if snapshot.seconds_left is None else f"{snapshot.seconds_left:,.0f} s"
