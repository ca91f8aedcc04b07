"""What the in-memory SQS says of a message, and what it refuses with which code, as AWS documents it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.simulation.sqs.sqs_clients import Queues
from tests.oneslot.explorer.port_clients import refusal

TEXT = {"DataType": "String", "StringValue": "text"}


def code(call: Any) -> str:
    return str(refusal(call)["Error"]["Code"])


def test_receive_hides_a_message_and_counts(queues: Queues) -> None:
    (message_id,) = queues.send("body")
    (message,) = queues.receive()
    assert (message["MessageId"], message["Body"]) == (message_id, "body")
    assert message["MD5OfBody"] == "841a2d689ad86bd1611447453c22c6fc"  # pragma: allowlist secret
    system = message["Attributes"]
    assert system["ApproximateReceiveCount"] == "1"
    assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])
    assert queues.receive() == []


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["other"], {"other"}),
        (["order.*"], {"order", "order.kind"}),
        (["All"], {"order", "order.kind", "other"}),
        ([], set()),
    ],
    ids=["name", "prefix", "all", "none"],
)
def test_receive_returns_the_attributes_it_names(queues: Queues, names: list[str], wanted: set[str]) -> None:
    queues.send("body", MessageAttributes={"order": TEXT, "order.kind": TEXT, "other": TEXT})
    system = ["ApproximateReceiveCount"]
    (message,) = queues.receive(MessageAttributeNames=names, MessageSystemAttributeNames=system)
    assert message.get("MessageAttributes", {}) == dict.fromkeys(wanted, TEXT)
    assert message["Attributes"] == {"ApproximateReceiveCount": "1"}


@pytest.mark.parametrize("call", ["delete_message", "change_message_visibility"])
def test_unknown_receipt_is_refused(queues: Queues, call: str) -> None:
    more = {"VisibilityTimeout": 0} if call == "change_message_visibility" else {}
    wrong = code(lambda: getattr(queues.client, call)(QueueUrl=queues.url, ReceiptHandle="unknown", **more))
    assert wrong == "ReceiptHandleIsInvalid"


def test_visibility_is_refused_when_deleted(queues: Queues) -> None:
    queues.send("body")
    (message,) = queues.receive()
    queues.delete(message)
    assert code(lambda: queues.show(message)) == "InvalidParameterValue"


def test_visibility_is_refused_when_not_in_flight(queues: Queues) -> None:
    queues.send("body")
    (message,) = queues.receive()
    queues.show(message)
    assert code(lambda: queues.show(message)) == "AWS.SimpleQueueService.MessageNotInflight"


def test_visibility_is_refused_beyond_twelve_hours(queues: Queues) -> None:
    queues.send("body")
    (message,) = queues.receive()
    request = {"QueueUrl": queues.url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 43_201}
    assert code(lambda: queues.client.change_message_visibility(**request)) == "InvalidParameterValue"


def test_redrive_policy_moves_a_message_with_its_counts(queues: Queues) -> None:
    (message_id,) = queues.send("body", MessageAttributes={"order": TEXT})
    for _ in range(2):
        queues.show(queues.receive()[0])
    assert queues.receive() == []
    (dead,) = queues.receive(url=queues.dead)
    assert (dead["MessageId"], dead["Body"]) == (message_id, "body")
    assert dead["MessageAttributes"] == {"order": TEXT}
    assert dead["Attributes"]["ApproximateReceiveCount"] == "3"
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == queues.arn(queues.url)


@pytest.mark.parametrize("call", ["delete_message_batch", "change_message_visibility_batch"])
def test_batch_answers_each_receipt(queues: Queues, call: str) -> None:
    queues.send("body")
    handle = queues.receive()[0]["ReceiptHandle"]
    more = {"VisibilityTimeout": 9} if call == "change_message_visibility_batch" else {}
    entries = [{"Id": "0", "ReceiptHandle": handle, **more}, {"Id": "1", "ReceiptHandle": "unknown", **more}]
    answer = getattr(queues.client, call)(QueueUrl=queues.url, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["0"]
    assert [(each["Id"], each["SenderFault"], each["Code"]) for each in answer["Failed"]] == [
        ("1", True, "ReceiptHandleIsInvalid")
    ]


BATCHES = {
    "EmptyBatchRequest": [],
    "TooManyEntriesInBatchRequest": [{"Id": str(number), "MessageBody": "b"} for number in range(11)],
    "BatchEntryIdsNotDistinct": [{"Id": "0", "MessageBody": "b"}] * 2,
    "InvalidBatchEntryId": [{"Id": "a b", "MessageBody": "b"}],
    "BatchRequestTooLong": [{"Id": str(number), "MessageBody": "b" * 600_000} for number in range(2)],
}


@pytest.mark.parametrize("problem", BATCHES)
def test_batch_is_refused_as_a_whole(queues: Queues, problem: str) -> None:
    found = code(lambda: queues.client.send_message_batch(QueueUrl=queues.url, Entries=BATCHES[problem]))
    assert found == f"AWS.SimpleQueueService.{problem}"
    assert queues.receive() == []


MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"MessageBody": ""}, "MissingParameter"),
    "control": ({"MessageBody": "\u0001"}, "InvalidMessageContents"),
    "long": ({"MessageBody": "b" * 1_048_577}, "InvalidParameterValue"),
    "attributes": (
        {"MessageBody": "b", "MessageAttributes": {f"a{number}": TEXT for number in range(11)}},
        "InvalidParameterValue",
    ),
    "blank": (
        {"MessageBody": "b", "MessageAttributes": {"a": {"DataType": "String", "StringValue": ""}}},
        "InvalidParameterValue",
    ),
}


@pytest.mark.parametrize("problem", MESSAGES)
def test_message_is_refused(queues: Queues, problem: str) -> None:
    request, wanted = MESSAGES[problem]
    assert code(lambda: queues.client.send_message(QueueUrl=queues.url, **request)) == wanted
    assert queues.receive() == []


@pytest.mark.parametrize("count", [0, 11])
def test_receive_is_refused_when_its_count_is_invalid(queues: Queues, count: int) -> None:
    assert code(lambda: queues.receive(count)) == "InvalidParameterValue"


def test_missing_queue_is_refused(queues: Queues) -> None:
    wanted = "AWS.SimpleQueueService.NonExistentQueue"
    assert code(lambda: queues.receive(url=queues.url.replace("requests", "missing"))) == wanted
    assert code(lambda: queues.client.get_queue_url(QueueName="missing")) == wanted


def test_queue_shows_its_depth_and_settings(queues: Queues) -> None:
    queues.send("a", "b", "c")
    queues.receive(1)
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
        "VisibilityTimeout",
        "MessageRetentionPeriod",
    ]
    answer = queues.client.get_queue_attributes(QueueUrl=queues.url, AttributeNames=names)
    assert answer["Attributes"] == dict(zip(names, ["2", "1", "0", "30", "345600"], strict=True))
    assert queues.client.get_queue_url(QueueName="requests")["QueueUrl"] == queues.url


def test_unknown_queue_attribute_is_refused(queues: Queues) -> None:
    found = code(lambda: queues.client.get_queue_attributes(QueueUrl=queues.url, AttributeNames=["Unknown"]))
    assert found == "InvalidAttributeName"
