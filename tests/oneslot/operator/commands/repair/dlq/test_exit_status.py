"""The exit status of `dlq redrive` and `dlq drop`: 0 only if every letter that was named can be handled, or is."""

from __future__ import annotations

import json

import pytest

from tests.kits.consumer import booking, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke

BODY = json.dumps(booking("m-1", **NOW))


@pytest.fixture
def letters(moto_stack: MotoStack) -> MotoStack:
    """Three dead letters: an answered request, an unanswered one, and one that fails again."""
    moto_stack.bench.deliver(record(booking("answered", **NOW)))
    moto_stack.put_dead_letter(booking("answered", **NOW))
    moto_stack.put_dead_letter(booking("unanswered", **NOW))
    moto_stack.put_dead_letter(booking("failing", **NOW, practice="ZZZ999"))
    return moto_stack


@pytest.mark.parametrize("yes", [[], ["--yes"]])
@pytest.mark.parametrize(
    ("verb", "status"),
    [
        (["drop", "answered"], 0),
        (["drop", "answered", "unanswered"], 1),
        (["redrive", "unanswered"], 0),
        (["redrive", "unanswered", "failing"], 1),
    ],
)
def test_verb_exits_with_1_when_a_named_letter_stays(
    letters: MotoStack, verb: list[str], status: int, yes: list[str]
) -> None:
    document(invoke("dlq", *verb, *yes, "--json"), exit_code=status)


def test_redrive_returns_binary_attributes_unchanged(moto_stack: MotoStack) -> None:
    """A redrive in batches keeps every byte of a Binary attribute."""
    sqs, outputs = moto_stack.bench.sqs, moto_stack.target.outputs
    every_byte = bytes(range(256))
    attributes = {
        "trace": {"DataType": "Binary", "BinaryValue": every_byte},
        "picture": {"DataType": "Binary.png", "BinaryValue": b"\x89PNG\x00"},
        "weight": {"DataType": "Number", "StringValue": "7.50"},
    }
    sqs.send_message(
        QueueUrl=outputs.dead_letter_queue_url,
        MessageBody=BODY,
        MessageAttributes=attributes,
    )
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    (message,) = sqs.receive_message(QueueUrl=outputs.queue_url, MessageAttributeNames=["All"])["Messages"]
    assert message["MessageAttributes"] == attributes
    assert message["Body"] == BODY
