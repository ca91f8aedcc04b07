"""A message in a queue: what SQS checks when it is sent, and its shape when it is received."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.services.answers import refuse

MAXIMUM_BYTES = 1_048_576
"""One message's limit, attributes included (API reference, SendMessage)."""

MAXIMUM_ATTRIBUTES = 10
"""One message's limit of attributes (developer guide, message quotas)."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a message may not include (API reference, SendMessage)."""


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


def size_of(entry: Mapping[str, Any]) -> int:
    """Return the bytes that SQS counts for a message: body, and names, types and values of its attributes."""
    size = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, value in entry.get("MessageAttributes", {}).items():
        content = value["StringValue"].encode() if "StringValue" in value else value.get("BinaryValue", b"")
        size += len(name.encode()) + len(value["DataType"].encode()) + len(content)
    return size


def check_content(entry: Mapping[str, Any], maximum: int) -> None:
    """Raise the refusal of a message whose body, attributes or size SQS does not accept."""
    name = "SendMessage"
    body, attributes = entry["MessageBody"], entry.get("MessageAttributes", {})
    if not body:
        refuse(name, "MissingParameter", "The request must contain the parameter MessageBody.")
    if _FORBIDDEN.search(body):
        refuse(name, "InvalidMessageContents", "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD")
    if len(attributes) > MAXIMUM_ATTRIBUTES:
        refuse(
            name,
            "InvalidParameterValue",
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum",
        )
    for attribute, value in attributes.items():
        if not (value.get("StringValue") or value.get("BinaryValue")):
            refuse(
                name, "InvalidParameterValue", f"Message (user) attribute '{attribute}' must contain a non-empty value"
            )
    if size_of(entry) > maximum:
        reason = f"One or more parameters are invalid. Reason: Message must be shorter than {maximum} bytes."
        refuse(name, "InvalidParameterValue", reason)


def digest(text: str) -> str:
    """Return the MD5 that SQS answers for a body."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
