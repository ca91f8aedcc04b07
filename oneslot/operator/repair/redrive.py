"""Redrive in batches: receive, send, and delete only what the queue has accepted. A crash at any moment loses nothing.

| killed | the next run |
|---|---|
| before the queue's answer | sends the message |
| between the queue's answer and the journal's line | sends it again; the ledger answers the second copy as a duplicate |
| between that line and the deletion, or SQS refused the deletion | only deletes it |
| between the deletion and its line | finds it gone, and notes that |

A killed run hides what it received for `HIDDEN_SECONDS`. So a message is gone only if two passes do not see it, and no
reader hides any before a pass or after it; else it is left for the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from oneslot.errors import QueueTimeout
from oneslot.operator.evidence.dead_letters import count_in_flight, read_dead_letters
from oneslot.operator.repair.journal import Journal
from oneslot.operator.sending.pacing import Pacer
from oneslot.operator.sending.sender import WITHIN_SECONDS
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, HeldLetter, Reading
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.runtime.sqs.sending import Entry, SendsBatches, send_all
from oneslot.target import Target
from oneslot.wording import numbered

PASSES = 2
"""Passes that must not see a message that is gone: another reader can hide it for just one."""


@dataclass(frozen=True)
class Redriven:
    """The result of one run.

    Attributes:
        moved: messages that this run found or made sent and deleted.
        refused: those that the queue will never accept (SQS id → code), which stay.
        taken: those that another operator moved or dropped.
        left: those for the next run, because another reader hides them or SQS did not delete them.
        journal: its path; among the finished ones if none are left.
    """

    moved: int
    refused: dict[str, str]
    taken: int
    left: int
    journal: Path

    @property
    def complete(self) -> bool:
        """Return whether every planned message is gone from the dead-letter queue."""
        return not self.refused and not self.left


def redrive(target: Target, journal: Journal, progress: Callable[[int], None]) -> Redriven:
    """Move what the journal has left from the dead-letter queue to the queue, and finish the journal if nothing is left.

    Raises `OneslotError` if the queue does not accept a message within 30 seconds; the journal can then be resumed.
    """
    before = len(journal.moved)
    gone = journal.left
    for _ in range(PASSES):
        if not gone:
            break
        hidden = queue_depth(target.sqs, target.outputs.dead_letter_queue_url).in_flight
        seen = _move_all(target, journal, progress)
        gone = frozenset() if hidden or count_in_flight(target) else journal.left - seen
    if gone:
        journal.note_deleted(gone)
    left = len(journal.left)
    return Redriven(
        moved=len(journal.moved) - before,
        refused=dict(journal.refused),
        taken=len(journal.deleted - journal.sent),
        left=left,
        journal=journal.path if left else journal.finish(),
    )


def entry(held: HeldLetter, *, run: str, fifo: bool) -> Entry[HeldLetter]:
    """Return the entry for the message as its producer sent it: body, attributes and group, without the quarantine's."""
    parameters: dict[str, Any] = {"MessageBody": held.body}
    kept = {name: value for name, value in held.attributes.items() if name not in QUARANTINE_ATTRIBUTES}
    if kept:
        parameters["MessageAttributes"] = {name: _sent(value) for name, value in kept.items()}
    if held.group is not None:
        parameters[GROUP_ATTRIBUTE] = held.group
    if fifo:
        # SQS accepts and drops a copy with an id that it saw in the last five minutes, so the old id, or a digest of the body,
        # could lose the message. An id of this run drops only this run's repetitions.
        parameters["MessageDeduplicationId"] = f"{run}-{held.letter.sqs_message_id}"
    return Entry(held, parameters, held.group if fifo else None)


def _sent(value: Any) -> dict[str, Any]:
    names = ("DataType", "StringValue", "BinaryValue")
    return {name: value[name] for name in names if name in value}


def _move_all(target: Target, journal: Journal, progress: Callable[[int], None]) -> set[str]:
    """Make one pass over the dead-letter queue; return the planned messages that it showed."""
    pacer = Pacer(journal.rate, target.surroundings)
    seen: set[str] = set()
    with read_dead_letters(target) as look:
        for batch in look:
            planned = [held for held in batch if journal.includes(held.letter.sqs_message_id)]
            if planned:
                _move(target, look, planned, journal, pacer)
                progress(len(planned))
                seen |= {held.letter.sqs_message_id for held in planned}
            if not journal.left:
                break
    return seen


def _move(target: Target, look: Reading, planned: list[HeldLetter], journal: Journal, pacer: Pacer) -> None:
    """Send and delete these. A message that an earlier, killed run has sent is only deleted."""
    waiting = [held for held in planned if held.letter.sqs_message_id not in journal.sent]
    if waiting:
        pacer.wait(len(waiting))
        _send(target, waiting, journal)
    accepted = [held for held in planned if held.letter.sqs_message_id in journal.sent]
    gone = look.delete(accepted) if accepted else []
    if gone:
        journal.note_deleted({held.letter.sqs_message_id for held in gone})


def _send(target: Target, waiting: list[HeldLetter], journal: Journal) -> None:
    client, queue_url = cast("SendsBatches", target.sqs), target.outputs.queue_url
    entries = [entry(held, run=journal.run, fifo=is_fifo(queue_url)) for held in waiting]
    settled = 0
    for answer in send_all(client, queue_url, entries, WITHIN_SECONDS, target.surroundings):
        if answer.accepted:
            journal.note_sent({each.message.letter.sqs_message_id: new for each, new in answer.accepted})
        for each, code in answer.refused:
            journal.note_refused(each.message.letter.sqs_message_id, code)
        settled += len(answer.accepted) + len(answer.refused)
    if missing := len(waiting) - settled:
        raise QueueTimeout(
            f"The queue did not accept {numbered(missing, 'message')} within {WITHIN_SECONDS:g} seconds, and the dead-letter "
            f"queue keeps the rest. Resume later with `{target.command('dlq redrive --resume --yes')}`."
        )
