"""A FIFO queue: order within groups, deduplication, and receive attempts."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from lab.simulation.sqs.queue import EXPIRED, GONE, Message, Queue
from oneslot.explorer.services.sqs import refuse_value

DEDUPLICATION_MS = 5 * 60 * 1000
"""How long SQS remembers a MessageDeduplicationId and a ReceiveRequestAttemptId (API reference)."""


@dataclass(slots=True)
class Group:
    """A message group: its messages in order, with deleted ones between them, and the counts of the others."""

    name: str
    messages: deque[Message] = field(default_factory=deque)
    waiting: int = 0
    in_flight: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A receive attempt: its messages, each with the receive and the end of hiding that it set."""

    since_ms: int
    received: Sequence[tuple[Message, int, int]]

    def repeats(self, now: int) -> bool:
        """Return whether a repeated attempt gets the same messages: none was deleted, changed or visible again."""
        return now < self.since_ms + DEDUPLICATION_MS and all(
            message.hidden and message.receives == receives and message.visible_ms == until
            for message, receives, until in self.received
        )


class FifoQueue(Queue):
    """A FIFO queue. A group is blocked while one of its messages is in flight; groups take turns."""

    def __init__(self, name: str, attributes: Mapping[str, str], random: Random, others: Mapping[str, Queue]) -> None:
        super().__init__(name, attributes, random, others)
        self.content_based = self.attributes.get("ContentBasedDeduplication") == "true"
        self._groups: dict[str, Group] = {}
        self._ready: OrderedDict[str, Group] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[int, Message]] = OrderedDict()
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()
        self._sequence = 18_870_000_000_000_000_000

    @property
    def visible(self) -> int:
        """The number of messages that are not in flight."""
        return sum(group.waiting for group in self._groups.values())

    def advance(self, now: int) -> None:
        """See `Queue`; and forget deduplication ids and attempts after five minutes."""
        super().advance(now)
        while self._tokens and next(iter(self._tokens.values()))[0] + DEDUPLICATION_MS <= now:
            self._tokens.popitem(last=False)
        while self._attempts and next(iter(self._attempts.values())).since_ms + DEDUPLICATION_MS <= now:
            self._attempts.popitem(last=False)

    def duplicate_of(self, deduplication_id: str) -> Message | None:
        """Return the message that was accepted with this id within five minutes."""
        found = self._tokens.get(deduplication_id)
        return None if found is None else found[1]

    def add(self, message: Message) -> None:
        """Add a message at the end of its group."""
        self._sequence += 256
        message.sequence_number = str(self._sequence)
        name = str(message.group)
        token = str(message.deduplication_id)
        self._tokens.pop(token, None)
        self._tokens[token] = (message.enqueued_ms, message)
        group = self._groups.setdefault(name, Group(name))
        group.messages.append(message)
        group.in_flight += 1  # `_show` moves it to the waiting ones
        super().add(message)

    def add_dead_letter(self, message: Message, source_arn: str, now: int) -> None:
        """Add what a source queue's redrive policy moves.

        "The original message's deduplication ID will be replaced with the original message's ID" (developer guide, dead-letter
        queue redrive), and "for FIFO queues, the enqueue timestamp resets" (dead-letter queue retention).
        """
        moved = replace(message, enqueued_ms=now, deduplication_id=message.message_id)
        super().add_dead_letter(moved, source_arn, now)

    def remove(self, message: Message) -> None:
        """See `Queue`."""
        group = self._groups[str(message.group)]
        if message.hidden:
            group.in_flight -= 1
        else:
            group.waiting -= 1
        super().remove(message)
        self._settle(group)

    def receive(self, count: int, hidden_ms: int, now: int, missing: float = 0.0) -> list[Message]:
        """Hide and return up to `count` messages, of each ready group as many as fit.

        "While messages with a particular MessageGroupId are invisible, no more messages belonging to the same MessageGroupId
        are returned" (API reference, ReceiveMessage). A FIFO queue does not sample, so `missing` has no effect.
        """
        taken: list[Message] = []
        while self._ready and len(taken) < count:
            group = self._ready.popitem(last=False)[1]
            for message in list(group.messages):
                if len(taken) == count:
                    break
                if not message.deleted and not self._bury(message, now):
                    group.waiting -= 1
                    group.in_flight += 1
                    taken.append(self._take(message, hidden_ms, now))
            self._ready.pop(group.name, None)  # burying the first message puts it there
        return taken

    def receive_attempt(self, attempt_id: str, count: int, hidden_ms: int, now: int) -> list[Message]:
        """Receive; or repeat the answer of the same attempt, with the same receipts, and hide the messages from now on."""
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is not None and attempt.received and attempt.repeats(now):
            messages = [message for message, _, _ in attempt.received]
            for message in messages:
                self._hide(message, now + hidden_ms)
            since_ms = attempt.since_ms
            self._attempts[attempt_id] = Attempt(since_ms, _received(messages))
            self._attempts.move_to_end(attempt_id, last=False)
        else:
            messages = self.receive(count, hidden_ms, now)
            self._attempts[attempt_id] = Attempt(now, _received(messages))
        return messages

    def delete(self, handle: str) -> None:
        """Delete a message in flight by its newest receipt; a second deletion succeeds.

        "For FIFO queues, a receipt handle expires after a visibility timeout period" (AWS knowledge center,
        sqs-receipt-handle-error): then InvalidParameterValue.
        """
        message = self._in_flight("DeleteMessage", handle)
        if message is not None:
            self.remove(message)

    def change_visibility(self, handle: str, timeout_ms: int, now: int) -> None:
        """Hide a message in flight until `timeout_ms` from now. An expired receipt is refused, as in `delete`."""
        name = "ChangeMessageVisibility"
        message = self._in_flight(name, handle)
        if message is None:
            refuse_value(name, "ReceiptHandle", handle, GONE)
        self._change(message, timeout_ms, now)

    def deliver_again(self) -> str | None:
        """Do nothing: "FIFO queues don't introduce duplicate messages" (developer guide, exactly-once processing)."""
        return None

    def undelete(self) -> str | None:
        """Do nothing, as `deliver_again`."""
        return None

    def _in_flight(self, name: str, handle: str) -> Message | None:
        message, newest = self._receipt(name, handle)
        if message is not None and not (newest and message.hidden):
            refuse_value(name, "ReceiptHandle", handle, EXPIRED)
        return message

    def _show(self, message: Message) -> None:
        group = self._groups[str(message.group)]
        group.in_flight -= 1
        group.waiting += 1
        message.hidden = False
        self._settle(group)

    def _settle(self, group: Group) -> None:
        """Bring the group's place among the ready ones in line with its counts."""
        while group.messages and group.messages[0].deleted:
            group.messages.popleft()
        if not group.in_flight and group.waiting:
            self._ready[group.name] = group
            return
        self._ready.pop(group.name, None)
        if not group.messages:
            self._groups.pop(group.name, None)


def _received(messages: Sequence[Message]) -> list[tuple[Message, int, int]]:
    return [(message, message.receives, message.visible_ms) for message in messages]
