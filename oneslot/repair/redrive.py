"""Redrive in batches: receive, send, and delete only what the queue has accepted. A crash at any moment loses nothing.

A process that dies between the queue's answer and the journal's line sends those messages twice. The ledger answers the
second copy as a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from oneslot.errors import OneslotError
from oneslot.evidence.dead_letters import read_dead_letters
from oneslot.repair.journal import Journal
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, HeldLetter, Reading
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.sending import Entry, SendsBatches, send_all
from oneslot.runtime.surroundings import Surroundings
from oneslot.sending.pacing import Pacer
from oneslot.sending.sender import WITHIN_SECONDS
from oneslot.target import Target


@dataclass(frozen=True)
class Redriven:
    """The result: messages `moved`, those `refused` by the queue for good (SQS id → code), and the number `unseen`.

    Unseen messages were planned, and another reader hides or took them.
    """

    moved: int
    refused: dict[str, str]
    unseen: int


def redrive(target: Target, journal: Journal, progress: Callable[[int], None], pacer: Pacer | None = None) -> Redriven:
    """Move what the journal has left from the dead-letter queue to the queue.

    Raises `OneslotError` if the queue does not accept a message within 30 seconds; the journal can then be resumed.
    """
    pacer = pacer or Pacer(journal.rate)
    before = len(journal.deleted)
    with read_dead_letters(target) as look:
        for batch in look:
            planned = [held for held in batch if held.letter.sqs_message_id in journal.left]
            if planned:
                _move(target, look, planned, journal, pacer)
                progress(len(planned))
            if not journal.left:
                break
    return Redriven(len(journal.deleted) - before, dict(journal.refused), len(journal.left))


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
    for answer in send_all(client, queue_url, entries, WITHIN_SECONDS, Surroundings()):
        if answer.accepted:
            journal.note_sent({each.message.letter.sqs_message_id: new for each, new in answer.accepted})
        for each, code in answer.refused:
            journal.note_refused(each.message.letter.sqs_message_id, code)
        settled += len(answer.accepted) + len(answer.refused)
    if missing := len(waiting) - settled:
        raise OneslotError(
            f"The queue did not accept {missing:,} message(s) within {WITHIN_SECONDS:g} seconds; they are still in the "
            f"dead-letter queue. Resume later with `{target.command('dlq redrive --resume --yes')}`."
        )
