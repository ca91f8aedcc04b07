"""The consumer's own calls to SQS: how long a message is hidden, and the quarantine of one with its reason."""

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
from oneslot.runtime.sqs.queue import Deferral, deferral_of
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


REASON = {"QuarantineReason", "QuarantineDetail", "SourceMessageId"}


def quarantined(
    raw: dict[str, Any], letters: str = "letters", reason: Any = "why", detail: Any = "what to do"
) -> dict[str, Any]:
    """Return the request that quarantines this record."""
    sqs = ScriptedSqs()
    Queues(sqs, "queue", letters).quarantine(as_record(raw), Unprocessable(reason, detail))
    (request,) = sqs.requests
    return request


def test_quarantined_message_keeps_body_and_attributes() -> None:
    source = record("body", attributes={"MessageDeduplicationId": "id", "QuarantineReason": "of the last time"})
    assert quarantined(source) == {
        "QueueUrl": "letters",
        "MessageBody": "body",
        "MessageAttributes": {
            "MessageDeduplicationId": {"DataType": "String", "StringValue": "id"},
            "QuarantineReason": {"DataType": "String", "StringValue": "why"},
            "QuarantineDetail": {"DataType": "String", "StringValue": "what to do"},
            "SourceMessageId": {"DataType": "String", "StringValue": source["messageId"]},
        },
    }


SEVEN, NINE = ({f"Name{number}": "own" for number in range(count)} for count in (7, 9))


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        ({**dict.fromkeys(REASON, "old"), **SEVEN}, {*SEVEN}),
        ({**NINE, "MessageDeduplicationId": "own"}, {"MessageDeduplicationId", *[*NINE][:6]}),
        (None, set()),
    ],
    ids=["the last reason gives way", "the identity stays", "null"],
)
def test_quarantined_message_keeps_its_identity_and_six_attributes_at_least(attributes: Any, kept: set[str]) -> None:
    """Sent again without its identity, it would be another request."""
    source = record("body", attributes=attributes)
    if attributes is None:
        source["messageAttributes"] = None
    sent = {name: value["StringValue"] for name, value in quarantined(source)["MessageAttributes"].items()}
    assert set(sent) == kept | REASON
    assert {name for name, value in sent.items() if value == "own"} == kept
    assert "old" not in sent.values()


@pytest.mark.parametrize(
    ("letters", "group", "deduplicated"),
    [("letters.fifo", "p", True), ("letters", "tenant-1", False)],
    ids=["FIFO", "fair queue"],
)
def test_quarantined_message_keeps_its_group(letters: str, group: str, deduplicated: bool) -> None:
    """SQS drops a deduplication id that it has seen: two equal messages need two, one that comes again the same."""
    source = record("not JSON")
    source["attributes"] |= {"MessageGroupId": group, "MessageDeduplicationId": "of its content"}
    sent = quarantined(source, letters)
    assert sent["MessageGroupId"] == group
    assert sent.get("MessageDeduplicationId") == (source["messageId"] if deduplicated else None)


def test_binary_attribute_comes_along_byte_by_byte() -> None:
    """Lambda passes base64 text, and null where there is no value; SQS takes the bytes, and refuses an empty one."""
    source = record("body", attributes={"Kept": "x"})
    lists: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}
    picture = {"stringValue": None, "binaryValue": "AAH/", "dataType": "Binary.png", **lists}
    source["messageAttributes"] |= {"Picture": picture, "Nothing": {"dataType": "Binary", **lists}}
    with mock_aws():
        client = boto3.client("sqs", "eu-west-2", aws_access_key_id="123456789012", aws_secret_access_key="none")
        letters = client.create_queue(QueueName="letters")["QueueUrl"]
        Queues(cast("SQS", client), "queue", letters).quarantine(as_record(source), Unprocessable("why", "what"))
        (letter,) = client.receive_message(QueueUrl=letters, MessageAttributeNames=["All"])["Messages"]
    assert letter["MessageAttributes"]["Picture"] == {"DataType": "Binary.png", "BinaryValue": b"\x00\x01\xff"}
    assert set(letter["MessageAttributes"]) == {"Kept", "Picture", *REASON}


SENDABLE = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@given(
    st.none() | st.text() | st.integers() | st.builds(ValueError, st.text()),
    st.none() | st.text() | st.binary() | st.builds(KeyError, st.text()) | st.just("x" * 10_000),
)
def test_reason_and_detail_are_sent_when_they_are_anything(reason: Any, detail: Any) -> None:
    sent = quarantined(record("body"), reason=reason, detail=detail)["MessageAttributes"]
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


HOUR_MS = 3_600_000


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, [1, 2, 4, 8, 300, 300]), (1.0, [2, 4, 8, 16, 302, 302])])
def test_busy_message_waits_short_times_that_grow(jitter: float, seconds: list[int]) -> None:
    deferral = Deferral(max_receive_count=10)

    assert [deferral.after_busy(count, 300_000, jitter) for count in range(1, 7)] == seconds


@pytest.mark.parametrize(
    ("lease_ms", "jitter", "seconds"), [(0, 0.0, 0), (1, 0.0, 1), (1_000, 0.0, 1), (1_001, 0.0, 2), (29_500, 1.0, 32)]
)
def test_whole_wait_never_ends_before_the_lease(lease_ms: int, jitter: float, seconds: int) -> None:
    assert Deferral(max_receive_count=3).after_busy(1, lease_ms, jitter) == seconds


@pytest.mark.parametrize("receive_count", [1, 4])
def test_short_wait_never_outlasts_the_lease(receive_count: int) -> None:
    assert Deferral().after_busy(receive_count, 500, 0.0) == 1


@pytest.mark.parametrize("ahead_ms", [6 * HOUR_MS, 2 * HOUR_MS])
def test_lease_of_a_wrong_clock_hides_no_longer_than_a_right_one(ahead_ms: int) -> None:
    deferral = Deferral(max_receive_count=10, longest_lease_seconds=30)

    assert [deferral.after_busy(count, ahead_ms, 0.0) for count in (1, 5, 10)] == [1, 30, 30]


@pytest.mark.parametrize("max_receive_count", [3, 5, 10, 11, 100])
def test_healthy_message_keeps_half_of_its_receives(max_receive_count: int) -> None:
    deferral = Deferral(max_receive_count=max_receive_count)
    left, receives = 900_000, 0

    while left > 0:
        receives += 1
        left -= 1000 * deferral.after_busy(receives, left, 0.0)

    assert receives <= max(1, max_receive_count // 2)


def test_delay_after_a_failure_grows_up_to_the_longest() -> None:
    deferral = Deferral(longest_retry_delay_seconds=300)

    assert [deferral.after_failure(count, 0.0) for count in (1, 2, 9, 10, 5_000)] == [1, 2, 256, 300, 300]
    assert deferral.after_failure(1, 1.0) == 2


def test_numbers_come_from_the_environment() -> None:
    environment = {
        "ONESLOT_MAX_RECEIVE_COUNT": "20",
        "ONESLOT_LONGEST_LEASE_SECONDS": "30",
        "ONESLOT_LONGEST_RETRY_DELAY_SECONDS": "60",
    }

    assert deferral_of(environment) == Deferral(
        max_receive_count=20, longest_lease_seconds=30, longest_retry_delay_seconds=60
    )
    assert deferral_of({}) == Deferral(max_receive_count=10, longest_lease_seconds=900, longest_retry_delay_seconds=0)


def test_malformed_number_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ONESLOT_LONGEST_LEASE_SECONDS"):
        deferral_of({"ONESLOT_LONGEST_LEASE_SECONDS": "long"})
