"""A standard queue and its messages: visibility, receipts, redrive policy, retention, and the anomalies that SQS documents."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from oneslot.dynamodb_in_memory.answers import refuse
from oneslot.explorer.services.sqs import ACCOUNT, MAXIMUM_BYTES, REGION, queue_url, refuse_value

MAXIMUM_HIDDEN_MS = 12 * 60 * 60 * 1000
"""The longest time from a receive to the end of the visibility timeout (developer guide, visibility timeout)."""

REMEMBERED_DELETIONS = 100
"""The newest deleted messages, of which one can return."""

EXPIRED = "The receipt handle has expired."
GONE = "Message does not exist or is not available for visibility timeout change."
"""Why SQS refuses a receipt."""

_DEFAULTS = {
    "VisibilityTimeout": "30",
    "MessageRetentionPeriod": "345600",
    "MaximumMessageSize": str(MAXIMUM_BYTES),
}
"""CreateQueue's defaults (API reference)."""


class Queue:
    """A standard queue. `now` is epoch ms in all methods; `random` makes the choices that SQS leaves open.

    `others` are the account's queues by ARN, of which one can be its dead-letter queue.
    """

    def __init__(self, name: str, attributes: Mapping[str, str], random: Random, others: Mapping[str, Queue]) -> None:
        self.name = name
        self.url = queue_url(name)
        self.arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        self.attributes = {**_DEFAULTS, "QueueArn": self.arn, **attributes}
        self.visibility_ms = int(self.attributes["VisibilityTimeout"]) * 1000
        self.retention_ms = int(self.attributes["MessageRetentionPeriod"]) * 1000
        self.maximum_bytes = int(self.attributes["MaximumMessageSize"])
        policy = json.loads(self.attributes.get("RedrivePolicy", "{}"))
        self._dead_letter_queue = others[policy["deadLetterTargetArn"]] if policy else None
        self._maximum_receives = int(policy.get("maxReceiveCount", 0))
        self.random = random
        self.messages: dict[str, Message] = {}
        self._deleted: deque[Message] = deque(maxlen=REMEMBERED_DELETIONS)

    @property
    def visible(self) -> list[Message]:
        """The messages that a receive can return: new ones first, then by the end of their visibility timeout."""
        return sorted((each for each in self.messages.values() if not each.hidden), key=lambda each: each.visible_ms)

    def advance(self, now: int) -> None:
        """Drop what is past its retention, and show what is past its visibility timeout."""
        for message in list(self.messages.values()):
            if message.enqueued_ms + self.retention_ms <= now:
                self.remove(message)
            elif message.hidden and message.visible_ms <= now:
                message.hidden = False

    def next_visible_ms(self) -> int | None:
        """Return when the next hidden message becomes visible; None if none is hidden."""
        return min((each.visible_ms for each in self.messages.values() if each.hidden), default=None)

    def add(self, message: Message) -> None:
        """Add a visible message."""
        self.messages[message.message_id] = message

    def remove(self, message: Message) -> None:
        """Remove a message that the queue has."""
        del self.messages[message.message_id]
        message.hidden = False

    def receive(self, count: int, hidden_ms: int, now: int, missing: float = 0.0) -> list[Message]:
        """Hide and return up to `count` visible messages; each is passed over with the probability `missing`.

        A receive beyond `maxReceiveCount` moves the message to the dead-letter queue instead.
        """
        taken: list[Message] = []
        for message in self.visible:
            if len(taken) == count:
                break
            is_missed = missing and self.random.random() < missing
            if not is_missed and not self._bury(message, now):
                taken.append(self._take(message, hidden_ms, now))
        return taken

    def handle(self, message: Message) -> str:
        """Return the handle of the newest receipt."""
        return f"{message.message_id}/{message.receives}/{self.name}"

    def delete(self, handle: str) -> None:
        """Delete a message by any of its receipts.

        With an old receipt "the request will succeed, but the message might not be deleted" (API reference, DeleteMessage), or
        be refused as expired (AWS knowledge center, sqs-receipt-handle-error). `random` chooses among the three.
        A second deletion succeeds.
        """
        message, newest = self._receipt("DeleteMessage", handle)
        if message is None:
            return
        if not newest:
            fate = self.random.randrange(3)
            if fate == 0:
                refuse_value("DeleteMessage", "ReceiptHandle", handle, EXPIRED)
            if fate == 1:
                return
        self.remove(message)
        self._deleted.append(message)

    def change_visibility(self, handle: str, timeout_ms: int, now: int) -> None:
        """Hide a message in flight until `timeout_ms` from now. With an old receipt `random` chooses whether SQS accepts it.

        Raises:
            ClientError: MessageNotInflight; InvalidParameterValue if the message is gone, or hidden for more than 12 hours
                since its receive: "If you attempt to set the VisibilityTimeout to a value greater than the maximum time left,
                Amazon SQS returns an error" (API reference, ChangeMessageVisibility).
        """
        name = "ChangeMessageVisibility"
        message, newest = self._receipt(name, handle)
        if message is None:
            refuse_value(name, "ReceiptHandle", handle, GONE)
        if not message.hidden:
            refuse(name, "AWS.SimpleQueueService.MessageNotInflight", "The message referred to isn't in flight.")
        if not newest and self.random.randrange(2) == 0:
            refuse_value(name, "ReceiptHandle", handle, EXPIRED)
        self._change(message, timeout_ms, now)

    def deliver_again(self) -> str | None:
        """Make a random message in flight visible, as at-least-once delivery can; return its id, or None."""
        in_flight = [message for message in self.messages.values() if message.hidden]
        if not in_flight:
            return None
        message = self.random.choice(in_flight)
        message.hidden = False
        return message.message_id

    def undelete(self) -> str | None:
        """Return a random deleted message to the queue, and its id; None if there is none.

        "It is possible to receive a message even after you delete it" (API reference, DeleteMessage).
        """
        if not self._deleted:
            return None
        message = self._deleted[self.random.randrange(len(self._deleted))]
        self._deleted.remove(message)
        self.add(message)
        return message.message_id

    def _take(self, message: Message, hidden_ms: int, now: int) -> Message:
        message.receives += 1
        message.received_ms = now
        message.first_received_ms = message.first_received_ms or now
        self._hide(message, now + hidden_ms)
        return message

    def _bury(self, message: Message, now: int) -> bool:
        """Move a message that was received `maxReceiveCount` times to the dead-letter queue; return whether it was."""
        if self._dead_letter_queue is None or message.receives < self._maximum_receives:
            return False
        self.remove(message)
        self._dead_letter_queue.add_dead_letter(message, self.arn, now)
        return True

    def add_dead_letter(self, message: Message, source_arn: str, now: int) -> None:
        """Add what a source queue's redrive policy moves, with its id and its receives.

        "When a message is moved to a dead-letter queue, the enqueue timestamp is unchanged" (developer guide, dead-letter queue
        retention), so its retention goes on.
        """
        self.add(replace(message, source_arn=source_arn))

    def _change(self, message: Message, timeout_ms: int, now: int) -> None:
        if now + timeout_ms > message.received_ms + MAXIMUM_HIDDEN_MS:
            reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
            refuse_value("ChangeMessageVisibility", "VisibilityTimeout", timeout_ms // 1000, reason)
        self._hide(message, now + timeout_ms)

    def _receipt(self, name: str, handle: str) -> tuple[Message | None, bool]:
        """Return a receipt's message, None if it is gone, and whether the receipt is its newest."""
        message_id, _, rest = handle.partition("/")
        number, _, queue = rest.partition("/")
        if queue != self.name or not number.isdigit():
            refuse(
                name, "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.'
            )
        message = self.messages.get(message_id)
        return message, message is not None and int(number) == message.receives

    def _hide(self, message: Message, until: int) -> None:
        message.hidden, message.visible_ms = True, until


@dataclass(slots=True, eq=False)
class Message:
    """A message in one queue. All times are epoch ms.

    Attributes:
        enqueued_ms: when its retention began.
        receives: its receives so far, in all queues; also the number of its newest receipt.
        visible_ms: the end of its newest visibility timeout, until which it is `hidden`; 0 before the first.
    """

    message_id: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    md5: str
    sent_ms: int
    enqueued_ms: int
    group: str | None = None
    deduplication_id: str | None = None
    sequence_number: str | None = None
    source_arn: str | None = None
    receives: int = 0
    first_received_ms: int = 0
    received_ms: int = 0
    visible_ms: int = 0
    hidden: bool = False

    def received(self, handle: str, *, system: bool, own: bool) -> dict[str, Any]:
        """Return it in ReceiveMessage's shape, with the system's attributes and its own, if they are asked for."""
        return {
            "MessageId": self.message_id,
            "ReceiptHandle": handle,
            "MD5OfBody": self.md5,
            "Body": self.body,
            **({"Attributes": self.system_attributes()} if system else {}),
            **({"MessageAttributes": self.attributes} if own and self.attributes else {}),
        }

    def system_attributes(self) -> dict[str, str]:
        """Return SQS's own attributes of the message."""
        values = {
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "SentTimestamp": str(self.sent_ms),
            "ApproximateReceiveCount": str(self.receives),
            "ApproximateFirstReceiveTimestamp": str(self.first_received_ms),
        }
        if self.group is not None:
            values["MessageGroupId"] = self.group
        if self.deduplication_id is not None and self.sequence_number is not None:
            values["MessageDeduplicationId"] = self.deduplication_id
            values["SequenceNumber"] = self.sequence_number
        if self.source_arn is not None:
            values["DeadLetterQueueSourceArn"] = self.source_arn
        return values
