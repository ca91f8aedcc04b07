"""`watch`: snapshots of the queue and the ledger until the queue is drained."""

from __future__ import annotations

import time
from collections import Counter

import click

from oneslot.operator.evidence.malformed import format_malformed
from oneslot.operator.evidence.observation import Observer, Snapshot, format_failing, until_drained
from oneslot.operator.evidence.tables import format_missing
from oneslot.operator.options import Number, on_stack
from oneslot.operator.repair.pausing import find_mapping_state
from oneslot.operator.target import Target
from oneslot.operator.terminal import SECONDS_BETWEEN_PLAIN_LINES, Terminal
from oneslot.wording import count_text, numbered

# SQS and CloudFormation charge per call; on loopback a call costs a millisecond.
LOCAL_INTERVAL, AWS_INTERVAL = 0.5, 5.0
OLD_SECONDS = 2.0
"""A count of the ledger older than this is shown with its age."""


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
    terminal.result({"stack_name": target.stack_name, "mapping": mapping and mapping.document(), **snapshot.document()})
    if mapping and mapping.off:
        terminal.plain(mapping.sentence(target), style="bold yellow")
    terminal.warn(unread)
    terminal.warn(format_malformed(snapshot.malformed, target.command))
    terminal.warn(format_missing(snapshot.missing, target.command))
    terminal.warn(format_failing(snapshot.failing, target.command))
    if until_drained and not snapshot.drained:
        terminal.say(_not_drained(snapshot), style="red")
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
            paused = mapping is not None and mapping.off
            line, over = f"{'PAUSED; ' if paused else ''}{_line(snapshot)}", snapshot.drained and drain
            if line != said if over else time.monotonic() - said_at >= SECONDS_BETWEEN_PLAIN_LINES:
                said_at, said = time.monotonic(), line
                terminal.say(line)
    except KeyboardInterrupt:
        if drain:
            raise
    return snapshot


def _not_drained(snapshot: Snapshot) -> str:
    if snapshot.queue.empty:
        return "Not known to be drained: SQS's counts are approximate, so the queue must look empty three times. Wait longer."
    return f"Not drained: {numbered(snapshot.queue.total, 'message')} left."


def _line(snapshot: Snapshot) -> str:
    queue = snapshot.queue
    ago = snapshot.counted_seconds_ago  # a large ledger is counted more rarely than the queue
    age = f", {ago:,.0f} s ago" if ago >= OLD_SECONDS else ""
    kinds = Counter(each.short for each in snapshot.failing).most_common()
    failing = (
        f"; failed again and again: {', '.join(f'{count:,} with {kind}' for kind, count in kinds)}" if kinds else ""
    )
    return (
        f"queue {queue.waiting:,} waiting, {queue.in_flight:,} in flight; dead letters {snapshot.dead_letters:,}; "
        f"ledger {count_text(snapshot.complete)} complete, {count_text(snapshot.in_progress)} in progress"
        f"{age}{_speed(snapshot)}{failing}"
    )


def _speed(snapshot: Snapshot) -> str:
    if not snapshot.queue.waiting and snapshot.queue.in_flight:
        return "; the rest is being processed, or hidden until its next delivery"
    if snapshot.rate is None or snapshot.seconds_left is None:
        return ""
    return f"; {snapshot.rate:,.0f} messages/s, about {snapshot.seconds_left:,.0f} s left"
