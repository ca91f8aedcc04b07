"""`oneslot ledger`: show, unlock and forget a row, under the condition that it is unchanged since the look."""

import json

import pytest

from oneslot.errors import LeaseHeld, LogNotWritten, RowChanged
from oneslot.operator.evidence.operator_log import append_line, open_operator_log, read_lines
from oneslot.operator.repair.ledger_row import forget, read_row, unlock
from oneslot.runtime.protocol import Claim, Duplicate
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import booking, record
from tests.kits.moto_stack import MotoStack, document, invoke

FAR = 4_000_000_000_000


def ledger_of(stack: MotoStack) -> DynamoDBLedger:
    return DynamoDBLedger(stack.bench.dynamodb, "ledger", retention_seconds=None)


def claimed(stack: MotoStack, message_id: str = "m-1", lease_until: int = FAR) -> Claim:
    """Claim a message for a consumer that has died."""
    claim = ledger_of(stack).claim(message_id, "hash", lease_until)
    assert isinstance(claim, Claim)
    return claim


def audit(stack: MotoStack) -> list[tuple[str, str]]:
    return [(line["action"], line["outcome"]) for line in read_lines(stack.home / "operator-log.jsonl")]


def test_unlock_lets_the_next_delivery_take_over(moto_stack: MotoStack) -> None:
    claim = claimed(moto_stack)
    assert document(invoke("ledger", "unlock", "m-1", "--json"))["changed"] is False
    assert moto_stack.bench.row("m-1")["lease_until"] == FAR
    done = document(invoke("ledger", "unlock", "m-1", "--yes", "--json"))
    assert done["changed"] is True
    row = moto_stack.bench.row("m-1")
    assert (row["lease_until"], row["consumption_count"], row["claimed_by"]) == (0, 1, claim.claimed_by)
    assert audit(moto_stack) == [("ledger unlock", "begun"), ("ledger unlock", "done")]
    (first, _) = read_lines(moto_stack.home / "operator-log.jsonl")
    assert first["before"]["lease_until"] == FAR
    assert isinstance(ledger_of(moto_stack).claim("m-1", "hash", FAR), Claim)


def test_unlock_leaves_a_claim_that_it_did_not_read(moto_stack: MotoStack) -> None:
    claimed(moto_stack, lease_until=1)
    looked_at = read_row(moto_stack.target, "m-1")
    another = claimed(moto_stack)
    with pytest.raises(RowChanged):
        unlock(moto_stack.target, looked_at, open_operator_log(moto_stack.target))
    assert moto_stack.bench.row("m-1")["lease_until"] == another.lease_until
    assert audit(moto_stack)[-1] == ("ledger unlock", "not done")


def test_forgotten_booking_finds_its_appointment(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1")))
    before = moto_stack.bench.row("m-1")
    assert document(invoke("ledger", "forget", "m-1", "--json"))["changed"] is False
    assert moto_stack.bench.row("m-1") == before
    assert document(invoke("ledger", "forget", "m-1", "--yes", "--json"))["changed"] is True
    assert moto_stack.bench.rows("ledger") == []
    (first, second) = read_lines(moto_stack.home / "operator-log.jsonl")
    assert (first["before"], second["outcome"]) == (before, "done")
    moto_stack.bench.deliver(record(booking("m-1")))
    assert len(moto_stack.bench.rows("appointments")) == 1
    assert moto_stack.bench.row("m-1")["result"] == before["result"]
    assert isinstance(ledger_of(moto_stack).claim("m-1", before["payload_hash"], FAR), Duplicate)


def test_forget_refuses_when_a_lease_is_held_or_the_row_changed(moto_stack: MotoStack) -> None:
    claimed(moto_stack)
    assert document(invoke("ledger", "forget", "m-1", "--yes", "--json"), 1)["code"] == LeaseHeld.code
    claimed(moto_stack, "m-2", lease_until=1)
    looked_at = read_row(moto_stack.target, "m-2")
    claimed(moto_stack, "m-2")
    with pytest.raises(RowChanged):
        forget(moto_stack.target, looked_at, open_operator_log(moto_stack.target))
    assert moto_stack.bench.row("m-2")["consumption_count"] == 2
    assert audit(moto_stack)[-1] == ("ledger forget", "not done")


def test_change_stops_when_the_operator_log_is_unwritable(moto_stack: MotoStack) -> None:
    claimed(moto_stack)
    (moto_stack.home / "operator-log.jsonl").mkdir()
    assert document(invoke("ledger", "unlock", "m-1", "--yes", "--json"), 1)["code"] == LogNotWritten.code
    assert moto_stack.bench.row("m-1")["lease_until"] == FAR


def test_operator_log_keeps_other_lines_when_one_is_cut(moto_stack: MotoStack) -> None:
    path = moto_stack.home / "operator-log.jsonl"
    path.write_bytes(b'{"whole": 1}\n{"cut o\xff')
    for number in (1, 2):
        append_line(path, {"next": number}, Surroundings())
    assert list(read_lines(path)) == [{"whole": 1}, {"next": 1}, {"next": 2}]


ROW = {
    "message_id": "m-unsent",
    "status": "COMPLETE",
    "consumption_count": 1,
    "updated": 1_700_000_000_000,
    "claimed_by": "c",
    "payload_hash": "h",
    "result": json.dumps({"outcome": "waitlist", "appointment_id": "m-unsent"}),
    "sends": json.dumps([{"id": "i", "to": "mails", "body": '"a private body"'}]),
    "unsent": 1,
}


def test_row_with_unsent_messages_says_how_to_send_them_and_what_its_loss_costs(moto_stack: MotoStack) -> None:
    table = moto_stack.target.outputs.ledger_table_name
    moto_stack.target.dynamodb.put_item(TableName=table, Item=to_attributes(ROW))

    shown, checked = invoke("ledger", "show", "m-unsent"), invoke("check")
    forgotten = invoke("ledger", "forget", "m-unsent")

    said = " ".join(shown.stdout.split())
    assert "1 of its messages are not marked as sent. If no relay sends them soon, `oneslot relay --once` does." in said
    assert "1 of its messages may never be sent, because the row alone holds them." in " ".join(
        forgotten.output.split()
    )
    assert "I13" in checked.stdout
    assert "private body" not in shown.output + checked.output + forgotten.output
