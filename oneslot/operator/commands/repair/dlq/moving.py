"""Move dead letters back to the queue, in batches from here."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oneslot.operator.evidence.operator_log import BEGUN, DONE, NOT_DONE, open_operator_log
from oneslot.operator.repair.journal import Journal
from oneslot.operator.repair.redrive import redrive
from oneslot.target import Target
from oneslot.terminal import Terminal
from oneslot.wording import numbered

REDRIVE = "dlq redrive"
RESUME = "dlq redrive --resume --yes"


def move_in_batches(terminal: Terminal, target: Target, journal: Journal) -> dict[str, Any]:
    """Move what the journal has left, say how it ended, and return that as a document."""
    log = open_operator_log(target)
    subject = {"run": journal.run}
    log.write(REDRIVE, subject, BEGUN, planned=sorted(journal.left))
    try:
        with terminal.progress("Redriving", len(journal.left)) as progress:
            redriven = redrive(target, journal, progress)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"Interrupted: {len(journal.moved):,} of {numbered(len(journal.planned), 'message')} moved; nothing is lost. "
            f"Continue with `{target.command(RESUME)}`, or end it with --abandon."
        ) from interrupt
    outcome = DONE if redriven.complete else NOT_DONE
    log.write(REDRIVE, subject, outcome, moved=redriven.moved, taken=redriven.taken, refused=redriven.refused)
    terminal.plain(f"{numbered(redriven.moved, 'message')} moved to the queue. The journal is {redriven.journal}.")
    if redriven.taken:
        terminal.plain(f"{numbered(redriven.taken, 'message')} not moved: another operator moved or dropped them.")
    if redriven.refused:
        codes = ", ".join(f"{count} {code}" for code, count in Counter(redriven.refused.values()).items())
        terminal.plain(f"The queue rejects these messages for good, so they stay: {codes}.", style="red")
    if redriven.left:
        terminal.plain(
            f"{numbered(redriven.left, 'message')} left: another reader hides them, or SQS did not delete them. "
            f"Continue in five minutes with `{target.command(RESUME)}`, or end it with --abandon.",
            style="red",
        )
    return {
        "moved": redriven.moved,
        "refused": redriven.refused,
        "taken": redriven.taken,
        "unseen": redriven.left,
        "complete": redriven.complete,
        "journal": str(redriven.journal),
    }
