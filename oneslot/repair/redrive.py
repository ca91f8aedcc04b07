"""Redrives in batches: receive, send, and delete only what the queue has accepted. A crash anywhere loses nothing.

At worst a message is sent twice, when the process dies between the queue's answer and the journal's line. Its second copy
is a duplicate, which the ledger answers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneslot.errors import OneslotError
from oneslot.evidence.dead_letters import read_dead_letters
from oneslot.repair.journal import Journal
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, HeldLetter, Reading
from oneslot.runtime.sqs.fifo import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.sqs.producer import is_hopeless
from oneslot.sending.pacing import Pacer
from oneslot.sending.sender import (
    ATTEMPTS,
    BATCH,
    BATCH_BYTES,
    FIRST_BACKOFF_SECONDS,
    LONGEST_BACKOFF_SECONDS,
    first_of_each_group,
)
from oneslot.target import Target


@dataclass(frozen=True)
class Redriven:
    """What came of it: messages `moved`, `refused` by the queue for good (SQS id → code), and `unseen` ones.

    `unseen` were planned and are no longer in the dead-letter queue, or hidden by another reader: look again later.
    """

    moved: int
    refused: dict[str, str]
    unseen: int


def redrive(target: Target, journal: Journal, progress: Callable[[int], None], pacer: Pacer | None = None) -> Redriven:
    """Move what the journal still has to do, from the dead-letter queue to the queue."""
    pacer = pacer or Pacer(journal.rate)
    before = len(journal.deleted)
    with read_dead_letters(target) as look:
        for batch in look:
            meant = [held for held in batch if held.letter.sqs_message_id in journal.left]
            for part in parts(meant):
                _move(target, look, part, journal, pacer)
                progress(len(part))
            if not journal.left:
                break
    return Redriven(len(journal.deleted) - before, dict(journal.refused), len(journal.left))


def parts(letters: Sequence[HeldLetter]) -> Iterator[list[HeldLetter]]:
    """Divide into what fits into one call: ten messages and 1 MiB."""
    part: list[HeldLetter] = []
    size = 0
    for held in letters:
        length = len(held.body.encode()) + sum(len(name) + len(repr(value)) for name, value in held.attributes.items())
        if part and (len(part) == BATCH or size + length > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(held)
        size += length
    if part:
        yield part


def entry(held: HeldLetter, at: int, *, run: str, fifo: bool) -> Any:
    """The message as it came first: body, attributes and group; without the reason that the consumer gave it."""
    made: dict[str, Any] = {"Id": str(at), "MessageBody": held.body}
    kept = {name: value for name, value in held.attributes.items() if name not in QUARANTINE_ATTRIBUTES}
    if kept:
        made["MessageAttributes"] = {name: _sent(value) for name, value in kept.items()}
    if held.group is not None:
        made[GROUP_ATTRIBUTE] = held.group
    if fifo:
        # SQS drops a copy of a body that it saw in the last five minutes, but says that it took it: with the old id, or
        # the body's digest, the message would then be nowhere. The run's own id still drops this run's own repetitions.
        made["MessageDeduplicationId"] = f"{run}-{held.letter.sqs_message_id}"
    return made


def _sent(value: Any) -> dict[str, Any]:
    names = ("DataType", "StringValue", "BinaryValue")
    return {name: value[name] for name in names if name in value}


def _move(target: Target, look: Reading, part: list[HeldLetter], journal: Journal, pacer: Pacer) -> None:
    """One part. What an earlier, killed run has sent is only deleted."""
    waiting = [held for held in part if held.letter.sqs_message_id not in journal.sent]
    if waiting:
        pacer.wait(len(waiting))
        _send(target, waiting, journal)
    accepted = [held for held in part if held.letter.sqs_message_id in journal.sent]
    gone = look.delete(accepted) if accepted else []
    if gone:
        journal.note_deleted({held.letter.sqs_message_id for held in gone})


def _send(target: Target, waiting: list[HeldLetter], journal: Journal) -> None:
    queue_url = target.outputs.queue_url
    ceiling = FIRST_BACKOFF_SECONDS
    fifo = is_fifo(queue_url)
    attempts = 0
    while attempts < ATTEMPTS:
        now, later = first_of_each_group(waiting, lambda held: held.group if fifo else None)
        entries = [entry(held, at, run=journal.run, fifo=fifo) for at, held in enumerate(now)]
        answer = target.sqs.send_message_batch(QueueUrl=queue_url, Entries=entries)
        new = {now[int(each["Id"])].letter.sqs_message_id: each["MessageId"] for each in answer.get("Successful", [])}
        if new:
            journal.note_sent(new)
        for failure in answer.get("Failed", []):
            if is_hopeless(failure):
                journal.note_refused(now[int(failure["Id"])].letter.sqs_message_id, failure["Code"])
        settled = journal.sent | set(journal.refused)
        again = [held for held in now if held.letter.sqs_message_id not in settled]
        waiting = [*again, *later]
        if not waiting:
            return
        if not again:
            continue
        attempts += 1
        if attempts < ATTEMPTS:
            time.sleep(random.random() * ceiling)
            ceiling = min(LONGEST_BACKOFF_SECONDS, ceiling * 2)
    raise OneslotError(
        f"The queue did not accept {len(waiting)} message(s) in {ATTEMPTS} attempts; they are still in the dead-letter "
        f"queue. Go on later: {target.command('dlq redrive --resume --yes')}."
    )
