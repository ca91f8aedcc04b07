"""The envelopes: which id a message has in one, and which content."""

import json
from typing import Any

import pytest

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.envelopes import eventbridge, plain, s3, sns
from oneslot.runtime.record import Identify, Record
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import record

# What is read, and what differs between two copies, as in the guides of SNS, EventBridge and S3.
NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "dc1e94d9-56c5-5e96-808d-cc7f68faa162",
    "Message": '{"order": 7}',
    "Timestamp": "2021-02-16T21:41:19.978Z",
}
EVENT = {
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "time": "2017-12-22T18:43:48Z",
    "detail": {"instance-id": "i-1234567890abcdef0", "state": "terminated"},
}
OBJECT = {
    "eventName": "ObjectCreated:Put",
    "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810"},
    "s3": {
        "bucket": {"name": "amzn-s3-demo-bucket", "arn": "arn:aws:s3:::amzn-s3-demo-bucket"},
        "object": {
            "key": "red+flower.jpg",
            "size": 1024,
            "eTag": "d41d8cd98f00b204e9800998ecf8427e",  # pragma: allowlist secret
            "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
            "sequencer": "0055AED6DCD90281E5",
        },
    },
}


def message(identity: Identify, body: dict[str, Any]) -> JsonMessage:
    parsed = Record.parse(record(body), JsonMessage, identity=identity)
    assert parsed.problem is None
    assert parsed.message is not None
    return parsed.message


def with_object(**changes: Any) -> dict[str, Any]:
    changed = json.loads(json.dumps(OBJECT))
    changed["s3"]["object"] |= changes
    return {"Records": [changed]}


def test_sns_id_is_attribute_then_message_then_sns() -> None:
    attribute = {"MessageDeduplicationId": {"Type": "String", "Value": "of-the-attribute"}}
    both = {**NOTIFICATION, "Message": '{"message_id": "of-the-message"}', "MessageAttributes": attribute}

    assert message(sns, both).message_id == "of-the-attribute"
    assert message(sns, {**both, "MessageAttributes": {}}).message_id == "of-the-message"
    assert message(sns, NOTIFICATION).message_id == "dc1e94d9-56c5-5e96-808d-cc7f68faa162"
    assert message(sns, NOTIFICATION).body == {"order": 7}


def test_sns_message_is_one_when_its_publisher_retries() -> None:
    first = {**NOTIFICATION, "Message": '{"message_id": "o-7", "pence": 2500}'}
    again = {**first, "MessageId": "another", "Timestamp": "2021-02-16T21:41:20.978Z"}
    assert message(sns, first) == message(sns, again)


def test_eventbridge_id_is_the_details_then_the_events() -> None:
    named = {**EVENT, "detail": {"message_id": "of-the-detail"}}

    assert message(eventbridge, named).message_id == "of-the-detail"
    assert message(eventbridge, EVENT).message_id == "6a7e8feb-b491-4cf7-a9f1-bf3703467718"
    assert message(eventbridge, EVENT).body == {name: EVENT[name] for name in ("source", "detail-type", "detail")}


def test_eventbridge_id_is_that_of_the_send_when_a_decision_sent_the_event() -> None:
    """Two sends of one decision may name the same request in their details."""
    sent = {**EVENT, "source": "oneslot", "resources": ["of-the-send"], "detail": {"message_id": "of-the-request"}}

    assert message(eventbridge, sent).message_id == "of-the-send"
    assert message(eventbridge, {**sent, "source": "aws.ec2"}).message_id == "of-the-request"
    assert message(eventbridge, {**EVENT, "source": "aws.ec2"}).message_id == EVENT["id"]


def test_eventbridge_content_is_equal_when_the_event_is_sent_again() -> None:
    first = {**EVENT, "detail": {"message_id": "m-1"}}
    again = {**first, "id": "another", "time": "2017-12-22T18:43:49Z"}
    assert message(eventbridge, first) == message(eventbridge, again)


def test_s3_content_names_the_event_and_the_object() -> None:
    assert message(s3, {"Records": [OBJECT]}).body == {
        "event": "ObjectCreated:Put",
        "bucket": "amzn-s3-demo-bucket",
        "key": "red flower.jpg",
        "sequencer": "0055AED6DCD90281E5",
        "versionId": "096fKKXTRTtl3on89fVO.nfljtsv6qko",
        "eTag": "d41d8cd98f00b204e9800998ecf8427e",  # pragma: allowlist secret
        "size": 1024,
    }


def test_s3_id_differs_between_two_events_of_one_key() -> None:
    first = message(s3, {"Records": [OBJECT]})
    again = message(s3, {"Records": [{**OBJECT, "responseElements": {"x-amz-request-id": "another"}}]})
    others = [
        with_object(sequencer="0055AED6DCD90281E6"),
        with_object(key="blue+flower.jpg"),
        {"Records": [{**OBJECT, "eventName": "ObjectRemoved:Delete"}]},
    ]

    assert first == again
    assert len({first.message_id, *(message(s3, other).message_id for other in others)}) == 4


@pytest.mark.parametrize(
    ("identity", "body", "found"),
    [
        (sns, {**NOTIFICATION, "Message": '{"message_id": null}'}, NOTIFICATION["MessageId"]),
        (sns, {**NOTIFICATION, "MessageAttributes": None}, NOTIFICATION["MessageId"]),
        (
            sns,
            {**NOTIFICATION, "MessageAttributes": {"MessageDeduplicationId": {"Type": "Binary", "Value": "AQID"}}},
            NOTIFICATION["MessageId"],
        ),
        (eventbridge, {**EVENT, "detail": {"message_id": None}}, EVENT["id"]),
        (sns(then=plain), {**NOTIFICATION, "Message": '{"message_id": "inner"}'}, "inner"),
        (eventbridge(then=plain), {**EVENT, "detail": {"message_id": "inner"}}, "inner"),
    ],
)
def test_absent_id_is_replaced_by_the_next_one(identity: Identify, body: dict[str, Any], found: str) -> None:
    assert message(identity, body).message_id == found


def test_envelope_in_a_notification_is_identified_as_it_is_alone() -> None:
    event = {"Records": [OBJECT]}
    assert message(sns(then=s3), {**NOTIFICATION, "Message": json.dumps(event)}) == message(s3, event)


def test_request_counts_when_s3_gives_no_sequencer() -> None:
    changed = with_object(sequencer=None)
    again = json.loads(json.dumps(changed))
    again["Records"][0]["responseElements"]["x-amz-request-id"] = "another"
    assert message(s3, changed).message_id != message(s3, again).message_id


TEST_EVENT = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2014-10-13T15:57:02.089Z", "Bucket": "bucket"}


@pytest.mark.parametrize(
    ("identity", "body", "reason"),
    [
        (sns, {"order": 7}, "unknown_envelope"),
        (sns, {**NOTIFICATION, "MessageAttributes": []}, "unknown_envelope"),
        (sns, {**NOTIFICATION, "Message": {"order": 7}}, "unknown_envelope"),
        (sns, {**NOTIFICATION, "Message": "plain text"}, "not_json"),
        (sns, {**NOTIFICATION, "MessageId": "not valid"}, "invalid_message_id"),
        (eventbridge, {"order": 7}, "unknown_envelope"),
        (eventbridge, {**EVENT, "detail": "text"}, "unknown_envelope"),
        (eventbridge, {**EVENT, "source": "oneslot", "resources": []}, "unknown_envelope"),
        (s3, TEST_EVENT, "unknown_envelope"),
        (s3, {"Records": [OBJECT, OBJECT]}, "unknown_envelope"),
        (s3, {"Records": ["text"]}, "unknown_envelope"),
        (s3, with_object(key=7), "unknown_envelope"),
        (s3, {"Records": [{**with_object(sequencer="")["Records"][0], "responseElements": {}}]}, "unknown_envelope"),
        (sns, {"Type": "SubscriptionConfirmation", "MessageId": "a", "Message": "text"}, "unknown_envelope"),
    ],
)
def test_unlike_body_is_unprocessable(identity: Identify, body: dict[str, Any], reason: str) -> None:
    parsed = Record.parse(record(body), JsonMessage, identity=identity)
    assert isinstance(parsed.problem, Unprocessable)
    assert parsed.problem.reason == reason
    assert parsed.problem.detail.endswith("drop this message") == (body is TEST_EVENT)
