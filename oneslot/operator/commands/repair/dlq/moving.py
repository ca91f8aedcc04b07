"""Move dead letters back to the queue, in batches from here."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oneslot.operator.evidence.operator_log import BEGUN, DONE, NOT_DONE, open_operator_log
from oneslot.operator.repair.redrive import Redrive, redrive
from oneslot.target import Target
from oneslot.terminal import Terminal
from oneslot.wording import numbered

REDRIVE = "dlq redrive"
AGAIN = "Run the command again in five minutes: a message that was sent twice takes effect once."


def move_in_batches(terminal: Terminal, target: Target, planned: frozenset[str], rate: float) -> dict[str, Any]:
    """Move these messages, say how it ended, and return that as a document."""
    log = open_operator_log(target)
    one = Redrive(planned, rate, target.surroundings.new_id())
    subject = {"run": one.run}
    log.write(REDRIVE, subject, BEGUN, planned=sorted(planned))
    try:
        with terminal.progress("Redriving", len(planned)) as progress:
            redrive(target, one, progress)
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
