"""A message in a queue, and its shape when it is received."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Message:
    """A message in one queue. All times are epoch ms.

    Attributes:
        enqueued_ms: when its retention began.
        receives: its receives so far, in all queues; also the number of its newest receipt.
        visible_ms: the end of its visibility timeout, while it is `hidden`.
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
    deleted: bool = False

    def received(self, handle: str, system: Collection[str], attributes: Collection[str]) -> dict[str, Any]:
        """Return it in ReceiveMessage's shape, with the system attributes and message attributes of these names."""
        message: dict[str, Any] = {
            "MessageId": self.message_id,
            "ReceiptHandle": handle,
            "MD5OfBody": self.md5,
            "Body": self.body,
        }
        if system:
            values = self.system_attributes()
            message["Attributes"] = (
                values if "All" in system else {name: values[name] for name in system if name in values}
            )
        if attributes and self.attributes:
            message["MessageAttributes"] = {
                name: dict(value) for name, value in self.attributes.items() if _is_wanted(name, attributes)
            }
        return message

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


def _is_wanted(name: str, names: Collection[str]) -> bool:
    """Return whether a receive asks for a message attribute: by `All`, `.*`, its name, or a prefix as in `bar.*`."""
    return any(
        wanted in ("All", ".*", name) or (wanted.endswith(".*") and name.startswith(wanted[:-2])) for wanted in names
    )
