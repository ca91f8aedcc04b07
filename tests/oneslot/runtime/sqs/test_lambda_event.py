"""The record has the keys that the Lambda guide shows for SQS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneslot.runtime.sqs.lambda_event import event, event_of

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

QUEUE = "arn:aws:sqs:eu-west-2:123456789012:my-queue"


def test_event_has_every_part_of_a_message() -> None:
    message: MessageTypeDef = {
        "MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
        "ReceiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "Body": "Test message.",
        "MD5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",  # pragma: allowlist secret
        "MD5OfMessageAttributes": "d25a6aea97eb8f585bfa92d314504a92",  # pragma: allowlist secret
        "Attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1545082649183",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1545082649185",
        },
        "MessageAttributes": {
            "text": {"StringValue": "myValue", "DataType": "String"},
            "bytes": {"BinaryValue": b"\x00\xff", "DataType": "Binary"},
        },
    }
    assert event([message], queue_arn=QUEUE, region="eu-west-2") == {
        "Records": [
            {
                "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
                "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
                "body": "Test message.",
                "attributes": {
                    "ApproximateReceiveCount": "1",
                    "SentTimestamp": "1545082649183",
                    "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                    "ApproximateFirstReceiveTimestamp": "1545082649185",
                },
                "messageAttributes": {
                    "text": {
                        "stringValue": "myValue",
                        "stringListValues": [],
                        "binaryListValues": [],
                        "dataType": "String",
                    },
                    "bytes": {
                        "binaryValue": "AP8=",
                        "stringListValues": [],
                        "binaryListValues": [],
                        "dataType": "Binary",
                    },
                },
                "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",  # pragma: allowlist secret
                "md5OfMessageAttributes": "d25a6aea97eb8f585bfa92d314504a92",  # pragma: allowlist secret
                "eventSource": "aws:sqs",
                "eventSourceARN": QUEUE,
                "awsRegion": "eu-west-2",
            }
        ]
    }


def test_event_of_a_message_without_attributes() -> None:
    message: MessageTypeDef = {"MessageId": "m", "ReceiptHandle": "r", "Body": "", "MD5OfBody": "d"}
    (record,) = event([message], queue_arn=QUEUE, region="eu-west-2")["Records"]
    assert record["messageAttributes"] == {}
    assert record["attributes"] == {}
    assert "md5OfMessageAttributes" not in record


def test_event_of_bodies_has_a_record_for_each() -> None:
    first, second = event_of({"message_id": "m-1"}, "not JSON", receive_count=3)["Records"]

    assert (first["body"], second["body"]) == ('{"message_id": "m-1"}', "not JSON")
    assert (first["messageId"], first["receiptHandle"]) != (second["messageId"], second["receiptHandle"])
    assert second["attributes"]["ApproximateReceiveCount"] == "3"
    assert second["md5OfBody"] == "902815a97d180e395e9abb266024a7dc"  # pragma: allowlist secret
