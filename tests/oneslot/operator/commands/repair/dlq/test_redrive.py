"""`oneslot dlq redrive`: its selection, its repetition, and what the queue rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.operator.repair.redrive import Redrive, redrive
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, peek
from tests.kits.consumer import Intercepted, booking, raising, record
from tests.kits.dead_letters import put_bookings
from tests.kits.moto_stack import NOW, MotoStack, document, invoke


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
    planned = put_bookings(moto_stack, 25)
    when, _, call = moment.partition(" the ")
    name = {"send": "send_message_batch", "delete": "delete_message_batch"}[call]
    dying = Intercepted(moto_stack.bench.sqs, **{when: {name: raising(KeyboardInterrupt())}})
    with pytest.raises(KeyboardInterrupt):
        redrive(moto_stack.target_with(dying), Redrive(planned, 500.0, "run"), lambda _: None)
    moved = document(invoke("dlq", "redrive", "--yes", "--json"))["moved"]
    assert moved == (15 if moment == "after the delete" else 25)
    assert document(invoke("dlq", "list", "--json"))["count"] == 0
    moto_stack.consume()
    assert {row["message_id"] for row in moto_stack.bench.rows("ledger")} == {f"m-{number}" for number in range(25)}
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
