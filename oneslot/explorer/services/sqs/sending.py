"""What SQS checks when a message is sent, and what it answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oneslot.dynamodb_in_memory.answers import refuse
from oneslot.explorer.services.sqs.requests import PREFIX, refuse_others, refuse_value

SENT = frozenset({"MessageBody", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId"})
"""The parameters of one message."""

MAXIMUM_BYTES = 1_048_576
"""One message's limit, attributes included (API reference, SendMessage)."""

MAXIMUM_ATTRIBUTES = 10
"""One message's limit of attributes (developer guide, message quotas)."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a message may not include (API reference, SendMessage)."""


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


def check_batch_size(entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise the refusal of a batch whose messages are too long together."""
    size = sum(size_of(entry) for entry in entries)
    if size > MAXIMUM_BYTES:
        message = f"Batch requests cannot be longer than {MAXIMUM_BYTES} bytes. You have sent {size} bytes."
        refuse("SendMessageBatch", PREFIX + "BatchRequestTooLong", message)


def deduplication_id(entry: Mapping[str, Any], *, fifo: bool, content_based: bool = True) -> str | None:
    """Return the id by which a FIFO queue knows a copy, None for a standard queue; or raise the message's refusal."""
    refuse_others(entry, SENT)
    token = entry.get("MessageDeduplicationId")
    if not fifo:
        if token is not None:
            refuse_value("SendMessage", "MessageDeduplicationId", token, "The queue is not a FIFO queue.")
        return None
    if not entry.get("MessageGroupId"):
        refuse("SendMessage", "MissingParameter", "The request must contain the parameter MessageGroupId.")
    if token is None and not content_based:
        reason = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided"
        refuse("SendMessage", "InvalidParameterValue", reason)
    return token or hashlib.sha256(entry["MessageBody"].encode()).hexdigest()
