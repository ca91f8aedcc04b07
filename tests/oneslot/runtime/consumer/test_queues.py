"""What the consumer says to SQS by itself."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, cast

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from oneslot.runtime.consumer.queues import SQS, Queues
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.sqs.deferral import Deferral
from tests.kits.consumer import as_record, record
from tests.kits.sqs import ScriptedSqs


@pytest.mark.parametrize("queue_url", ["https://sqs/orders.fifo", "https://sqs/orders"])
def test_retry_delay_is_refused_on_a_fifo_queue(queue_url: str) -> None:
    delay = Deferral(longest_retry_delay_seconds=1)
    if not queue_url.endswith(".fifo"):
        assert Queues(ScriptedSqs(), queue_url, "letters", deferral=delay).deferral is delay
        return
    with pytest.raises(ValueError, match="ONESLOT_LONGEST_RETRY_DELAY_SECONDS"):
        Queues(ScriptedSqs(), queue_url, "letters", deferral=delay)
    assert Queues(ScriptedSqs(), queue_url, "letters").deferral == Deferral()


def test_quarantined_message_keeps_body_and_attributes() -> None:
    sqs = ScriptedSqs()
    attributes = {"MessageDeduplicationId": "id", "QuarantineReason": "of the last time"}
    source = record("body", attributes=attributes)
    Queues(sqs, "queue", "letters", lambda: 0.0).quarantine(as_record(source), Unprocessable("why", "what to do"))
    assert sqs.requests == [
        {
            "QueueUrl": "letters",
            "MessageBody": "body",
            "MessageAttributes": {
                "MessageDeduplicationId": {"DataType": "String", "StringValue": "id"},
                "QuarantineReason": {"DataType": "String", "StringValue": "why"},
                "QuarantineDetail": {"DataType": "String", "StringValue": "what to do"},
                "SourceMessageId": {"DataType": "String", "StringValue": source["messageId"]},
            },
        }
    ]


def test_second_quarantine_keeps_all_own_attributes() -> None:
    """The reasons of the last time take no room: they are replaced."""
    sqs = ScriptedSqs()
    own = {f"Name{number}": "x" for number in range(7)}
    last_time = {"QuarantineReason": "old", "QuarantineDetail": "old", "SourceMessageId": "old"}
    source = as_record(record("body", attributes={**last_time, **own}))
    Queues(sqs, "queue", "letters", lambda: 0.0).quarantine(source, Unprocessable("why", "what"))
    sent = sqs.requests[0]["MessageAttributes"]
    assert set(sent) == {*own, *last_time}
    assert "old" not in {value["StringValue"] for value in sent.values()}


def test_a_message_keeps_its_identity_whatever_else_gives_way() -> None:
    """Sent through again without it, it would be another request."""
    sqs = ScriptedSqs()
    source = as_record(
        record("body", attributes={**{f"Name{n}": "x" for n in range(9)}, "MessageDeduplicationId": "id"})
    )
    Queues(sqs, "queue", "letters", lambda: 0.0).quarantine(source, Unprocessable("why", "what"))
    assert sqs.requests[0]["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] == "id"
    assert len(sqs.requests[0]["MessageAttributes"]) == 10


def test_a_binary_attribute_comes_along_byte_by_byte() -> None:
    """Lambda hands over base64 text, and null where there is no value; SQS takes the bytes, and refuses an empty one."""
    with mock_aws():
        client = boto3.client("sqs", "eu-west-2", aws_access_key_id="123456789012", aws_secret_access_key="none")
        letters = client.create_queue(QueueName="letters")["QueueUrl"]
        source = record("body", attributes={"Kept": "x"})
        source["messageAttributes"]["Picture"] = {
            "stringValue": None,
            "binaryValue": "AAH/",
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": "Binary.png",
        }
        source["messageAttributes"]["Nothing"] = {"stringListValues": [], "binaryListValues": [], "dataType": "Binary"}
        Queues(cast("SQS", client), "queue", letters, lambda: 0.0).quarantine(
            as_record(source), Unprocessable("why", "what")
        )
        (letter,) = client.receive_message(QueueUrl=letters, MessageAttributeNames=["All"])["Messages"]
    sent = letter["MessageAttributes"]
    assert sent["Picture"] == {"DataType": "Binary.png", "BinaryValue": b"\x00\x01\xff"}
    assert set(sent) == {"Kept", "Picture", "QuarantineReason", "QuarantineDetail", "SourceMessageId"}


SENDABLE = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@given(
    st.none() | st.text() | st.integers() | st.builds(ValueError, st.text()),
    st.none() | st.text() | st.binary() | st.builds(KeyError, st.text()) | st.just("x" * 10_000),
)
def test_reason_and_detail_are_sent_when_they_are_anything(reason: Any, detail: Any) -> None:
    sqs = ScriptedSqs()
    Queues(sqs, "queue", "letters").quarantine(as_record(record("body")), Unprocessable(reason, detail))
    sent = sqs.requests[0]["MessageAttributes"]
    texts = [sent[name]["StringValue"] for name in ("QuarantineReason", "QuarantineDetail")]
    assert all(SENDABLE.fullmatch(text) for text in texts)
    assert sum(len(text.encode()) for text in texts) < 10_000


@pytest.mark.parametrize(
    ("detail", "sent"),
    [
        (None, "the consumer gave no detail; see its code for this reason"),
        ("", "the consumer gave no detail; see its code for this reason"),
        (ValueError("sku is unknown"), "sku is unknown"),
        (ValueError(), "ValueError"),
        ("a\0b\x1b[31m\ud800\n", "a\\x00b\\x1b[31m\\xd800\n"),
    ],
)
def test_detail_is_readable_when_it_is_no_plain_text(detail: Any, sent: str) -> None:
    assert Unprocessable("bad", detail).detail == sent
    assert str(Unprocessable("bad", detail)) == f"bad: {sent}"


def test_reason_is_the_text_when_it_is_of_an_enumeration() -> None:
    class Reason(str, Enum):  # noqa: UP042 - whose `str` is the member's name
        OUT_OF_STOCK = "out_of_stock"

    assert Unprocessable(Reason.OUT_OF_STOCK, Reason.OUT_OF_STOCK).reason == "out_of_stock"
    assert Unprocessable(Reason.OUT_OF_STOCK, Reason.OUT_OF_STOCK).detail == "out_of_stock"


def test_message_is_quarantined_when_its_attributes_are_null() -> None:
    sqs, raw = ScriptedSqs(), record("body")
    raw["messageAttributes"] = None
    Queues(sqs, "queue", "letters").quarantine(as_record(raw), Unprocessable("why", "what to do"))
    assert set(sqs.requests[0]["MessageAttributes"]) == {"QuarantineReason", "QuarantineDetail", "SourceMessageId"}
