"""Lambda's event for a batch from SQS, built from the result of ReceiveMessage. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageAttributeValueOutputTypeDef, MessageTypeDef


def event_of(*bodies: Mapping[str, Any] | str, receive_count: int = 1) -> dict[str, Any]:
    """Return the event for messages with these bodies, for a test: a mapping is sent as JSON."""
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    return event(
        [
            received(text, f"00000000-0000-4000-8000-{number:012d}", f"receipt-{number}", receives=receive_count)
            for number, text in enumerate(texts, 1)
        ],
        queue_arn="arn:aws:sqs:eu-west-2:000000000000:queue",
        region="eu-west-2",
    )


def received(
    body: str, message_id: str, receipt: str, *, receives: int = 1, sent_ms: int = 0, fifo_number: int | None = None
) -> MessageTypeDef:
    """Return a message as ReceiveMessage would, for a test. `fifo_number`: its place in a FIFO queue's one group."""
    content = body.encode("utf-8", "surrogatepass")
    message: MessageTypeDef = {
        "MessageId": message_id,
        "ReceiptHandle": receipt,
        "Body": body,
        "MD5OfBody": hashlib.md5(content, usedforsecurity=False).hexdigest(),
        "Attributes": {
            "ApproximateReceiveCount": str(receives),
            "SentTimestamp": str(sent_ms),
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": str(sent_ms + 1),
        },
    }
    if fifo_number is not None:
        message["Attributes"] |= {
            "MessageGroupId": "group",
            "MessageDeduplicationId": hashlib.sha256(content).hexdigest(),
            "SequenceNumber": f"{18849496460467696128 + fifo_number}",
        }
    return message


@dataclass(frozen=True, slots=True)
class Context:
    """Lambda's context, for a test. The remaining time does not pass."""

    remaining_ms: int = 30_000
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        """Return `remaining_ms`."""
        return self.remaining_ms


def event(messages: Sequence[MessageTypeDef], *, queue_arn: str, region: str) -> dict[str, Any]:
    """Return `{"Records": [...]}`, one record per message, with Lambda's keys."""
    return {"Records": [record(message, queue_arn=queue_arn, region=region) for message in messages]}


def record(message: MessageTypeDef, *, queue_arn: str, region: str) -> dict[str, Any]:
    """Return one record. `attributes` has all attributes that SQS sent, as on Lambda."""
    document: dict[str, Any] = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {
            name: _message_attribute(value) for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }
    if "MD5OfMessageAttributes" in message:
        document["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return document


def _message_attribute(value: MessageAttributeValueOutputTypeDef) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if "StringValue" in value:
        document["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        document["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode("ascii")
    # SQS does not implement list values, but Lambda sends the two empty lists.
    return {**document, "stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
