"""A FIFO queue: order within groups, deduplication, and receive attempts."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from lab.simulation.sqs.queue import EXPIRED, GONE, Message, Queue
from oneslot.explorer.services.sqs import refuse_value

DEDUPLICATION_MS = 5 * 60 * 1000
"""How long SQS remembers a MessageDeduplicationId and a ReceiveRequestAttemptId (API reference)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A receive attempt: its messages, each with the receive and the end of hiding that it set."""

    since_ms: int
    received: Sequence[tuple[Message, int, int]]

    def repeats(self) -> bool:
        """Return whether a repeated attempt gets the same messages: there are some, and all are hidden as they were."""
        return bool(self.received) and all(
            message.hidden and message.receives == receives and message.visible_ms == until
            for message, receives, until in self.received
        )


class FifoQueue(Queue):
    """A FIFO queue. A group is blocked while one of its messages is in flight; groups take turns."""

    def __init__(self, name: str, attributes: Mapping[str, str], random: Random, others: Mapping[str, Queue]) -> None:
        super().__init__(name, attributes, random, others)
        self.content_based = self.attributes.get("ContentBasedDeduplication") == "true"
        self._tokens: dict[str, tuple[int, Message]] = {}
        self._attempts: dict[str, Attempt] = {}
        self._turns: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._sequence = 18_870_000_000_000_000_000

    def advance(self, now: int) -> None:
        """See `Queue`; and forget deduplication ids and attempts after five minutes."""
        super().advance(now)
        since = now - DEDUPLICATION_MS
        self._tokens = {token: found for token, found in self._tokens.items() if found[0] > since}
        self._attempts = {name: attempt for name, attempt in self._attempts.items() if attempt.since_ms > since}

    def duplicate_of(self, deduplication_id: str) -> Message | None:
        """Return the message that was accepted with this id within five minutes."""
        found = self._tokens.get(deduplication_id)
        return None if found is None else found[1]

    def add(self, message: Message) -> None:
        """Add a message at the end of its group."""
        self._sequence += 256
        message.sequence_number = str(self._sequence)
        self._tokens[str(message.deduplication_id)] = (message.enqueued_ms, message)
        super().add(message)

    def add_dead_letter(self, message: Message, source_arn: str, now: int) -> None:
        """Add what a source queue's redrive policy moves.

        "The original message's deduplication ID will be replaced with the original message's ID" (developer guide, dead-letter
        queue redrive), and "for FIFO queues, the enqueue timestamp resets" (dead-letter queue retention).
        """
        moved = replace(message, enqueued_ms=now, deduplication_id=message.message_id)
        super().add_dead_letter(moved, source_arn, now)

    def receive(self, count: int, hidden_ms: int, now: int, missing: float = 0.0) -> list[Message]:
        """Hide and return up to `count` messages, of each ready group as many as fit.

        "While messages with a particular MessageGroupId are invisible, no more messages belonging to the same MessageGroupId
        are returned" (API reference, ReceiveMessage). A FIFO queue does not sample, so `missing` has no effect.
        """
        groups: dict[str, list[Message]] = {}
        for message in self.messages.values():
            groups.setdefault(str(message.group), []).append(message)
        taken: list[Message] = []
        for name in sorted(groups, key=lambda name: self._turns.get(name, 0)):
            if len(taken) == count:
                break
            if any(message.hidden for message in groups[name]):
                continue
            self._turns[name] = next(self._numbers)
            for message in groups[name]:
                if len(taken) < count and not self._bury(message, now):
                    taken.append(self._take(message, hidden_ms, now))
        return taken

    def receive_attempt(self, attempt_id: str, count: int, hidden_ms: int, now: int) -> list[Message]:
        """Receive; or repeat the answer of the same attempt, with the same receipts, and hide the messages from now on."""
        attempt = self._attempts.get(attempt_id)
        if attempt is not None and attempt.repeats():
            messages, since_ms = [message for message, _, _ in attempt.received], attempt.since_ms
            for message in messages:
                self._hide(message, now + hidden_ms)
        else:
            messages, since_ms = self.receive(count, hidden_ms, now), now
        received = [(message, message.receives, message.visible_ms) for message in messages]
        self._attempts[attempt_id] = Attempt(since_ms, received)
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
