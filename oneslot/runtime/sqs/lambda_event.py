"""Lambda's event for a batch from SQS, built from the result of ReceiveMessage. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageAttributeValueOutputTypeDef, MessageTypeDef


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
        "messageAttributes": _message_attributes(message.get("MessageAttributes", {})),
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }
    if "MD5OfMessageAttributes" in message:
        document["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return document


def _message_attributes(attributes: Mapping[str, MessageAttributeValueOutputTypeDef]) -> dict[str, Any]:
    return {name: _message_attribute(value) for name, value in attributes.items()}


def _message_attribute(value: MessageAttributeValueOutputTypeDef) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if "StringValue" in value:
        document["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        document["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode("ascii")
    # SQS does not implement list values, but Lambda sends the two empty lists.
    return {**document, "stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
