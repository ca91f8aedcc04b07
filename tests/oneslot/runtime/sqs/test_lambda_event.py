"""The record has the keys that the Lambda guide shows for SQS."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.data_classes import SQSEvent

from oneslot.explorer.handlers.scenario import message_of
from oneslot.runtime.sqs.lambda_event import event, event_of

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

QUEUE = "arn:aws:sqs:eu-west-2:123456789012:my-queue"


def test_event_has_every_part_of_a_message() -> None:
    system: dict[Any, str] = {"ApproximateReceiveCount": "1", "SentTimestamp": "1545082649183"}
    message: MessageTypeDef = {
        "MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
        "ReceiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "Body": "Test message.",
        "MD5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",  # pragma: allowlist secret
        "MD5OfMessageAttributes": "d25a6aea97eb8f585bfa92d314504a92",  # pragma: allowlist secret
        "Attributes": system,
        "MessageAttributes": {
            "text": {"StringValue": "myValue", "DataType": "String"},
            "bytes": {"BinaryValue": b"\x00\xff", "DataType": "Binary"},
        },
    }
    empty: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}

    (made,) = event([message], queue_arn=QUEUE, region="eu-west-2")["Records"]

    assert made == {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": system,
        "messageAttributes": {
            "text": {"stringValue": "myValue", **empty, "dataType": "String"},
            "bytes": {"binaryValue": "AP8=", **empty, "dataType": "Binary"},
        },
        "md5OfBody": message["MD5OfBody"],
        "md5OfMessageAttributes": message["MD5OfMessageAttributes"],
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE,
        "awsRegion": "eu-west-2",
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


MODEL = {"messageId", "receiptHandle", "body", "attributes", "messageAttributes", "md5OfBody"}
MODEL |= {"eventSource", "eventSourceARN", "awsRegion"}
"""The fields that Powertools' SqsRecordModel requires. Pydantic is not installed here."""

MODEL_ATTRIBUTES = {"ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "SenderId", "SentTimestamp"}
FIFO_ATTRIBUTES = {"MessageGroupId", "MessageDeduplicationId", "SequenceNumber"}


@pytest.mark.parametrize(
    ("record", "fifo"),
    [
        pytest.param(event_of("text")["Records"][0], False, id="event_of"),
        pytest.param(message_of(0, "text").record(0), False, id="explorer, a body"),
        pytest.param(message_of(0, {"body": "text", "attributes": {"SenderId": "me"}}).record(0), False, id="a record"),
        pytest.param(message_of(1, "text", fifo=True).record(0), True, id="explorer, FIFO"),
    ],
)
def test_record_has_what_powertools_models_require(record: dict[str, Any], fifo: bool) -> None:
    parsed = next(SQSEvent({"Records": [record]}).records)

    assert record.keys() >= MODEL
    assert record["attributes"].keys() == MODEL_ATTRIBUTES | (FIFO_ATTRIBUTES if fifo else set())
    assert all(isinstance(value, str) for value in record["attributes"].values())
    assert (parsed.body, parsed.md5_of_body) == ("text", hashlib.md5(b"text", usedforsecurity=False).hexdigest())
    assert int(parsed.attributes.sent_timestamp) < int(parsed.attributes.approximate_first_receive_timestamp)
    assert parsed.event_source_arn.endswith(".fifo") is fifo
    assert (parsed.aws_region, parsed.event_source) == ("eu-west-2", "aws:sqs")


def test_given_message_attributes_have_lambdas_lists() -> None:
    given = {"body": "", "messageAttributes": {"kind": {"stringValue": "a", "dataType": "String"}}}

    assert message_of(0, given).record(0)["messageAttributes"] == {
        "kind": {"stringValue": "a", "stringListValues": [], "binaryListValues": [], "dataType": "String"}
    }


def test_fifo_records_are_in_order() -> None:
    first, second = (message_of(position, "text", fifo=True).record(0)["attributes"] for position in (0, 1))

    assert int(first["SequenceNumber"]) < int(second["SequenceNumber"])
    assert first["MessageGroupId"] == second["MessageGroupId"]
