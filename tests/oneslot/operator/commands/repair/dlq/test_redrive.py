"""`oneslot dlq redrive`: its selection, its repetition, and what the queue rejects."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneslot.operator.repair.redrive import Redrive, redrive
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, peek
from tests.kits.consumer import Intercepted, booking, raising, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke, put_bookings


def test_redrive_takes_ids_and_a_repair_list(moto_stack: MotoStack, tmp_path: Path) -> None:
    ids = [moto_stack.put_dead_letter(booking(f"m-{number}", **NOW)) for number in range(4)]
    path = tmp_path / "redrive-list.jsonl"
    path.write_text('{"message_id":"m-1","verdict":"QUARANTINED","action":"redrive"}\n\n{"message_id":"gone"}\n')
    result = document(invoke("dlq", "redrive", ids[0], "--file", str(path), "--yes", "--json"), exit_code=1)
    assert (result["moved"], result["not_found"]) == (2, ["gone"])
    assert result["selection"] == {"ids": [ids[0], "m-1", "gone"], "reason": None, "everything": False}
    assert {each["message_id"] for each in result["messages"]} == {"m-0", "m-1"}
    left = {each["message_id"] for each in document(invoke("dlq", "list", "--json"))["messages"]}
    assert left == {"m-2", "m-3"}


def test_redrive_returns_a_message_unchanged(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(
        record(booking(None, practice="ZZZ999"), attributes={"MessageDeduplicationId": "m-1", "trace": "t"})
    )
    document(invoke("dlq", "redrive", "--all", "--yes", "--json"))
    (message,) = moto_stack.bench.sqs.receive_message(
        QueueUrl=moto_stack.target.outputs.queue_url, MessageAttributeNames=["All"]
    )["Messages"]
    assert json.loads(message["Body"]) == booking(None, practice="ZZZ999")
    assert {name: value["StringValue"] for name, value in message["MessageAttributes"].items()} == {
        "MessageDeduplicationId": "m-1",
        "trace": "t",
    }
    assert not set(QUARANTINE_ATTRIBUTES) & set(message["MessageAttributes"])


@pytest.mark.parametrize(
    "moment",
    [
        "after the send",
        "after the delete",
        *(pytest.param(moment, marks=pytest.mark.slow) for moment in ("before the send", "before the delete")),
    ],
)
def test_next_redrive_loses_nothing_when_one_was_killed(moto_stack: MotoStack, moment: str) -> None:
    planned = put_bookings(moto_stack, 12)
    when, _, call = moment.partition(" the ")
    name = {"send": "send_message_batch", "delete": "delete_message_batch"}[call]
    dying = Intercepted(moto_stack.bench.sqs, **{when: {name: raising(KeyboardInterrupt())}})
    with pytest.raises(KeyboardInterrupt):
        redrive(moto_stack.target_with(dying), Redrive(planned, 500.0, "run"), lambda _: None)
    moved = document(invoke("dlq", "redrive", "--yes", "--json"))["moved"]
    assert moved == (2 if moment == "after the delete" else 12)
    assert document(invoke("dlq", "list", "--json"))["count"] == 0
    moto_stack.consume()
    assert {row["message_id"] for row in moto_stack.bench.rows("ledger")} == {f"m-{number}" for number in range(12)}
    duplicates = [delivery for delivery in moto_stack.bench.deliveries if delivery.outcome == "duplicate"]
    assert len(duplicates) == (10 if moment in ("after the send", "before the delete") else 0)


@pytest.mark.parametrize("passing", [("InternalError", False), ("RequestThrottled", True), ("KmsThrottled", True)])
def test_redrive_keeps_what_the_queue_rejects(moto_stack: MotoStack, passing: tuple[str, bool]) -> None:
    planned = put_bookings(moto_stack, 3)
    sqs = moto_stack.bench.sqs

    class Picky:
        """Refuses m-1 for good, and once everything else."""

        def __init__(self) -> None:
            self.calls = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(sqs, name)

        def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803
            self.calls += 1
            bad = [each for each in Entries if '"m-1"' in each["MessageBody"]]
            good = [each for each in Entries if each not in bad]
            failed = [{"Id": each["Id"], "SenderFault": True, "Code": "InvalidMessageContents"} for each in bad]
            if self.calls == 1:
                code, blamed = passing
                failed += [{"Id": each["Id"], "SenderFault": blamed, "Code": code} for each in good]
                return {"Failed": failed}
            return sqs.send_message_batch(QueueUrl=QueueUrl, Entries=good) | {"Failed": failed}

    target = moto_stack.target_with(Picky())
    done = Redrive(planned, 500.0, "run")
    redrive(target, done, lambda _: None)
    assert (done.moved, list(done.refused.values()), len(done.left)) == (2, ["InvalidMessageContents"], 0)
    assert [letter.message_id for letter in peek(sqs, target.outputs.dead_letter_queue_url)] == ["m-1"]


BODY = json.dumps(booking("m-1", **NOW))


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
