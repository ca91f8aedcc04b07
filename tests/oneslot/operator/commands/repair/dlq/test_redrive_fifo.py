"""`oneslot dlq redrive` on a FIFO stack: a warning where a group would lose its order."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.kits.consumer import booking
from tests.kits.moto_stack import NOW, MotoStack, document, invoke


@pytest.fixture
def fifo_stack(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> MotoStack:
    """The stack with FIFO queues."""
    urls = {
        field: moto_stack.bench.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
        for field, name in (("queue_url", "requests.fifo"), ("dead_letter_queue_url", "dead-letters.fifo"))
    }
    target = replace(moto_stack.target, outputs=replace(moto_stack.target.outputs, **urls))
    monkeypatch.setattr("oneslot.operator.commands.repair.dlq.redrive.open_target", lambda _: target)
    return replace(moto_stack, target=target)


def put(stack: MotoStack, message_id: str, group: str, **fields: Any) -> None:
    stack.bench.sqs.send_message(
        QueueUrl=stack.target.outputs.dead_letter_queue_url,
        MessageBody=json.dumps(booking(message_id, **NOW, **fields)),
        MessageGroupId=group,
        MessageDeduplicationId=message_id,
    )


def put_groups(stack: MotoStack) -> None:
    """Put an older letter that fails again in one group, and a younger one in another."""
    put(stack, "a-1", "a", practice="ZZZ999")
    put(stack, "a-2", "a")
    put(stack, "b-1", "b")
    put(stack, "b-2", "b", practice="ZZZ999")


@pytest.mark.parametrize(
    ("arguments", "reordered"), [([], 1), (["--yes"], 1), (["--all"], 0), (["a-1", "--even-failing"], 0)]
)
def test_redrive_warns_when_an_older_letter_of_a_group_stays(
    fifo_stack: MotoStack, arguments: list[str], reordered: int
) -> None:
    put_groups(fifo_stack)

    result = invoke("dlq", "redrive", *arguments, "--json")
    people = invoke("dlq", "redrive", *arguments)

    assert document(result)["reordered_groups"] == reordered
    assert ("Order is lost" in people.stdout) == (reordered == 1 and arguments == [])


def test_redrive_does_not_warn_on_a_standard_queue(moto_stack: MotoStack) -> None:
    """A standard queue takes message groups too, for fairness alone."""
    for name, practice in (("a-1", "ZZZ999"), ("a-2", "A81001")):
        moto_stack.bench.sqs.send_message(
            QueueUrl=moto_stack.target.outputs.dead_letter_queue_url,
            MessageBody=json.dumps(booking(name, **NOW, practice=practice)),
            MessageGroupId="a",
        )

    assert document(invoke("dlq", "redrive", "--json"))["reordered_groups"] == 0
