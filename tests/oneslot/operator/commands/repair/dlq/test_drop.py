"""`oneslot dlq drop`: what it deletes, what it spares, and what it logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.operator.evidence.operator_log import drops, open_operator_log
from oneslot.operator.repair.dropping import drop
from oneslot.operator.repair.forecast import forecast_all
from oneslot.runtime.identity import payload_hash
from tests.kits.consumer import NHS_NUMBER, Intercepted, Killed, booking, raising
from tests.kits.moto_stack import NOW, MotoStack, document, invoke, put_bookings, put_one_of_each


def test_drop_spares_requests_without_an_answer(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
    result = document(invoke("dlq", "drop", "--all", "--yes", "--json"))
    assert (result["dropped"], len(result["spared"])) == (2, 10)
    lines = [json.loads(line) for line in (moto_stack.home / "operator-log.jsonl").read_text().splitlines()]
    assert {line["action"] for line in lines} == {"dlq drop"}
    for name in ("duplicate", "done_before"):
        assert [line["outcome"] for line in lines if line["message_id"] == name] == ["begun", "done"]
    assert len(lines) == 4
    assert all(line["who"]["user"] and line["at"] and line["before"]["reason"] for line in lines)
    for line in lines:
        assert line["before"]["outlook"] == line["message_id"]
        assert line["before"]["payload_hash"] == payload_hash(booking(line["message_id"], **NOW))
        assert line["sqs_message_id"] == line["source_message_id"], "the redrive policy keeps the id"
    again = document(invoke("dlq", "drop", "--reason", "invalid_field", "--accept-loss", "--yes", "--json"))
    assert again["dropped"] == 1
    assert NHS_NUMBER not in (moto_stack.home / "operator-log.jsonl").read_text()


def test_drop_finds_letters_behind_others(moto_stack: MotoStack) -> None:
    """SQS delivers ten at a time, and rejects a call that deletes none."""
    put_bookings(moto_stack, 25)
    assert document(invoke("dlq", "drop", "m-12", "m-24", "--accept-loss", "--yes", "--json"))["dropped"] == 2
    left = {each["message_id"] for each in document(invoke("dlq", "list", "--json"))["messages"]}
    assert left == {f"m-{number}" for number in range(25)} - {"m-12", "m-24"}


def test_check_counts_no_loss_when_a_letter_was_dropped(moto_stack: MotoStack, tmp_path: Path) -> None:
    path = tmp_path / "mine.ndjson"
    path.write_text(json.dumps(booking("m-1", practice="ZZZ999")) + "\n" + json.dumps(booking("m-2")) + "\n")
    invoke("send", "--file", str(path))
    moto_stack.consume()
    document(invoke("dlq", "drop", "m-1", "--accept-loss", "--yes", "--json"))
    assert document(invoke("check", "--json"))["counts"]["lost"] == 0
    audit = moto_stack.home / "operator-log.jsonl"
    audit.write_text(audit.read_text().replace(moto_stack.target.identity, "another stack"))
    assert document(invoke("check", "--json"), exit_code=1)["counts"]["lost"] == 1


def drop_all(stack: MotoStack, sqs: Any) -> None:
    """Drop every dead letter, with this client."""
    chosen = {each.letter.sqs_message_id: each for each in forecast_all(stack.target, [])}
    drop(stack.target_with(sqs), chosen, open_operator_log(stack.target), lambda _: None)


def test_check_counts_no_loss_when_a_drop_was_killed(moto_stack: MotoStack, tmp_path: Path) -> None:
    """The letter is deleted, and only the line before the deletion shows why."""
    path = tmp_path / "mine.ndjson"
    path.write_text(json.dumps(booking("m-1", practice="ZZZ999")) + "\n" + json.dumps(booking("m-2")) + "\n")
    invoke("send", "--file", str(path))
    moto_stack.consume()
    with pytest.raises(Killed):
        drop_all(moto_stack, Intercepted(moto_stack.bench.sqs, after={"delete_message_batch": raising(Killed())}))

    assert document(invoke("check", "--json"))["counts"]["lost"] == 0


def test_drop_does_not_count_when_sqs_refused_it(moto_stack: MotoStack) -> None:
    put_bookings(moto_stack, 1)
    refusal = {"Failed": [{"Id": "0", "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}]}

    drop_all(moto_stack, Intercepted(moto_stack.bench.sqs, after={"delete_message_batch": lambda _perform: refusal}))

    log = (moto_stack.home / "operator-log.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in log] == ["begun", "not done"]
    assert list(drops(moto_stack.target)) == []
