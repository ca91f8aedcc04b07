"""Take dead letters out of their queue: `redrive` sends them again, and `drop` deletes them for good.

A redrive receives, sends, and deletes only what the queue has accepted. A crash at any moment loses nothing.

| killed | the next redrive |
|---|---|
| before the queue's answer | sends the message |
| between the queue's answer and the deletion | sends it again; the ledger answers the second copy as a duplicate |

A killed run hides what it received for `HIDDEN_SECONDS`. So a message is gone only if two passes do not see it, and no
reader hides any before a pass or after it; else it is left for the next redrive.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from oneslot.errors import QueueTimeout
from oneslot.operator.evidence.dead_letters import count_in_flight, read_dead_letters
from oneslot.operator.evidence.operator_log import BEGUN, DONE, DROP, NOT_DONE, OperatorLog
from oneslot.operator.repair.forecast import Forecast
from oneslot.operator.sending.sender import WITHIN_SECONDS, Timetable
from oneslot.operator.target import Target
from oneslot.runtime.record import MAXIMUM_ATTRIBUTES
from oneslot.runtime.sqs.batches import Entry, SendsBatches, send_all, text_attributes
from oneslot.runtime.sqs.dead_letters import HeldLetter, Reading
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, QUARANTINE_ATTRIBUTES, is_fifo, queue_depth
from oneslot.runtime.surroundings import Surroundings
from oneslot.wording import numbered

PASSES = 2
"""Passes that must not see a message that is gone: another reader can hide it for just one."""


class Pacer:
    """Holds a rate in messages a second since its construction."""

    def __init__(self, rate: float, surroundings: Surroundings) -> None:
        self._rate = rate
        self._timetable = Timetable(surroundings)
        self._done = 0

    def wait(self, steps: int) -> None:
        """Wait until `steps` more messages are due."""
        self._timetable.wait_until(self._done / self._rate)
        self._done += steps


@dataclass
class Redrive:
    """One redrive of the messages `planned`, by their SQS ids in the dead-letter queue.

    The queue accepted those in `sent`. Those in `deleted` are gone from the dead-letter queue, also those that others took
    from it unsent. The queue will never accept those in `refused` (SQS id → code), which stay. `run` is its own id.
    """

    planned: frozenset[str]
    rate: float
    run: str
    sent: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def left(self) -> frozenset[str]:
        """The messages that are still to be sent or deleted."""
        return self.planned - self.deleted - set(self.refused)

    @property
    def moved(self) -> int:
        """The number of messages that were sent and deleted."""
        return len(self.sent & self.deleted)

    @property
    def taken(self) -> int:
        """The number of messages that another operator moved or dropped."""
        return len(self.deleted - self.sent)

    @property
    def complete(self) -> bool:
        """Whether every planned message is gone from the dead-letter queue."""
        return not self.refused and not self.left

    def includes(self, sqs_message_id: str) -> bool:
        """Return whether to move this message if the dead-letter queue shows it.

        It does so even after a deletion, because another receive can come between, or a server of SQS miss it.
        """
        return sqs_message_id in self.planned and sqs_message_id not in self.refused


def redrive(target: Target, one: Redrive, progress: Callable[[int], None]) -> None:
    """Move what is left of a redrive from the dead-letter queue to the queue.

    Raises `OneslotError` if the queue does not accept a message within 30 seconds.
    """
    gone = one.left
    for _ in range(PASSES):
        if not gone:
            break
        hidden = queue_depth(target.sqs, target.outputs.dead_letter_queue_url).in_flight
        seen = _move_all(target, one, progress)
        gone = frozenset() if hidden or count_in_flight(target) else one.left - seen
    one.deleted |= gone


def entry(held: HeldLetter, *, run: str, fifo: bool) -> Entry[HeldLetter]:
    """Return the entry for the message as its producer sent it: body, attributes and group, without the quarantine's.

    SQS gives it a new id. A message without an id of its own was known by the first alone, so it keeps the quarantine's.
    """
    parameters: dict[str, Any] = {"MessageBody": held.body}
    sent = {name: value for name, value in held.attributes.items() if name not in QUARANTINE_ATTRIBUTES}
    parts = ("DataType", "StringValue", "BinaryValue")
    kept = {name: {part: value[part] for part in parts if part in value} for name, value in sent.items()}
    if held.may_have_had_no_id and len(kept) + len(QUARANTINE_ATTRIBUTES) <= MAXIMUM_ATTRIBUTES:
        known = (held.letter.reason, held.letter.detail, held.letter.original_sqs_message_id)
        kept |= text_attributes(dict(zip(QUARANTINE_ATTRIBUTES, known, strict=True)))["MessageAttributes"]
    if kept:
        parameters["MessageAttributes"] = kept
    if held.group is not None:
        parameters[GROUP_ATTRIBUTE] = held.group
    if fifo:
        # SQS accepts and drops a copy with an id that it saw in the last five minutes, so the old id, or a digest of the body,
        # could lose the message. An id of this run drops only this run's repetitions.
        parameters["MessageDeduplicationId"] = f"{run}-{held.letter.sqs_message_id}"
    return Entry(held, parameters, held.group if fifo else None)


def _move_all(target: Target, one: Redrive, progress: Callable[[int], None]) -> set[str]:
    """Make one pass over the dead-letter queue; return the planned messages that it showed."""
    pacer = Pacer(one.rate, target.surroundings)
    seen: set[str] = set()
    with read_dead_letters(target) as look:
        for batch in look:
            planned = [held for held in batch if one.includes(held.letter.sqs_message_id)]
            if planned:
                _move(target, look, planned, one, pacer)
                progress(len(planned))
                seen |= {held.letter.sqs_message_id for held in planned}
            if not one.left:
                break
    return seen


def _move(target: Target, look: Reading, planned: list[HeldLetter], one: Redrive, pacer: Pacer) -> None:
    """Send and delete these. A message that an earlier pass has sent is only deleted."""
    waiting = [held for held in planned if held.letter.sqs_message_id not in one.sent]
    if waiting:
        pacer.wait(len(waiting))
        _send(target, waiting, one)
    accepted = [held for held in planned if held.letter.sqs_message_id in one.sent]
    if accepted:
        one.deleted |= {held.letter.sqs_message_id for held in look.delete(accepted)}


def _send(target: Target, waiting: list[HeldLetter], one: Redrive) -> None:
    client, queue_url = cast("SendsBatches", target.sqs), target.outputs.queue_url
    entries = [entry(held, run=one.run, fifo=is_fifo(queue_url)) for held in waiting]
    settled = 0
    for answer in send_all(client, queue_url, entries, WITHIN_SECONDS, target.surroundings):
        one.sent |= {each.message.letter.sqs_message_id for each, _ in answer.accepted}
        one.refused |= {each.message.letter.sqs_message_id: code for each, code in answer.refused}
        settled += len(answer.accepted) + len(answer.refused)
    if missing := len(waiting) - settled:
        raise QueueTimeout(
            f"The queue did not accept {numbered(missing, 'message')} within {WITHIN_SECONDS:g} seconds, and the dead-letter "
            "queue keeps the rest. Run the command again later."
        )


def drop(
    target: Target, chosen: Mapping[str, Forecast], log: OperatorLog, progress: Callable[[int], None]
) -> list[Forecast]:
    """Delete the chosen letters (SQS id → forecast) from the dead-letter queue; return the deleted ones."""
    gone: list[Forecast] = []
    with read_dead_letters(target) as look:
        for batch in look:
            meant = [held for held in batch if held.letter.sqs_message_id in chosen]
            if not meant:
                continue
            for held in meant:
                log.write(DROP, _subject(chosen[held.letter.sqs_message_id]), BEGUN)
            deleted = {held.letter.sqs_message_id for held in look.delete(meant)}
            for held in meant:
                forecast, is_gone = chosen[held.letter.sqs_message_id], held.letter.sqs_message_id in deleted
                log.write(DROP, _subject(forecast), DONE if is_gone else NOT_DONE)
                if is_gone:
                    gone.append(forecast)
            progress(len(meant))
            if len(gone) == len(chosen):
                break
    return gone


def _subject(forecast: Forecast) -> dict[str, Any]:
    return {
        "message_id": forecast.letter.message_id,
        "sqs_message_id": forecast.letter.sqs_message_id,
        "source_message_id": forecast.letter.original_sqs_message_id,
        "before": {
            "reason": forecast.letter.reason,
            "outlook": forecast.outlook.value,
            "payload_hash": forecast.facts.payload_hash,
            "sent": forecast.letter.sent,
        },
    }
