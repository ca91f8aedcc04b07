"""Malformed rows and log lines: each verb names them, and shows the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.audit.model import model_of
from oneslot.audit.read import lines
from oneslot.errors import MalformedRow
from oneslot.operator.evidence.deliveries import read_deliveries, valid_deliveries
from oneslot.operator.evidence.malformed import Malformed
from oneslot.operator.evidence.operator_log import read_lines
from oneslot.runtime.record import payload_hash
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import booking, cancellation, record
from tests.kits.moto_stack import Logs, MotoStack, document, invoke

ROW = {
    "message_id": "by-hand",
    "status": "IN_PROGRESS",
    "consumption_count": 1,
    "updated": 1,
    "lease_until": 1,
    "claimed_by": "a consumer",
    "payload_hash": payload_hash(booking("by-hand")),
}
OTHER_TYPE: dict[str, Any] = {"a": ["map"]}
MALFORMED_ROWS: list[dict[str, Any]] = [
    *(
        {name: value for name, value in ROW.items() if name != lacking}
        for lacking in ("status", "consumption_count", "lease_until", "updated", "claimed_by")
    ),
    *(
        ROW | {name: value}
        for name, value in (
            ("status", {"a", "set"}),
            ("status", "DONE"),
            ("consumption_count", "3"),
            ("lease_until", OTHER_TYPE),
            ("updated", "yesterday"),
            ("updated", 10**20),
            ("claimed_by", 7),
            ("result", "{"),
        )
    ),
]


def write(stack: MotoStack, table: str, item: dict[str, Any]) -> None:
    stack.bench.dynamodb.put_item(TableName=table, Item=to_attributes(item))


def test_malformed_ledger_row_is_forgotten_but_not_unlocked(moto_stack: MotoStack) -> None:
    write(moto_stack, "ledger", MALFORMED_ROWS[0])
    (before,) = moto_stack.bench.rows("ledger")
    assert document(invoke("ledger", "unlock", "by-hand", "--yes", "--json"), 1)["code"] == MalformedRow.code
    assert moto_stack.bench.rows("ledger") == [before]
    forgotten = document(invoke("ledger", "forget", "by-hand", "--yes", "--json"))
    assert forgotten["changed"] is True
    assert moto_stack.bench.rows("ledger") == []
    (begun, done) = read_lines(moto_stack.home / "operator-log.jsonl")
    assert (begun["before"].keys(), done["outcome"]) == (before.keys(), "done")


def test_forecast_for_a_malformed_row_comes_true(moto_stack: MotoStack) -> None:
    rows = {f"malformed-{number}": row for number, row in enumerate(MALFORMED_ROWS)}
    for lacking in ("payload_hash", "consumption_count", "claimed_by", "result", "updated"):
        moto_stack.bench.deliver(record(booking(f"no-{lacking}")))
        complete = moto_stack.bench.row(f"no-{lacking}")
        rows[f"no-{lacking}"] = {name: value for name, value in complete.items() if name != lacking}
    moto_stack.bench.deliver(record(booking("unreadable")))
    rows["unreadable"] = moto_stack.bench.row("unreadable") | {"result": "{"}
    rows["malformed-none"] = moto_stack.bench.row("unreadable") | {"result": "{}"}
    for message_id, row in rows.items():
        changed = row if "malformed" not in message_id else row | {"payload_hash": payload_hash(booking(message_id))}
        write(moto_stack, "ledger", changed | {"message_id": message_id})
        moto_stack.put_dead_letter(booking(message_id))
    messages = document(invoke("dlq", "list", "--json"))["messages"]
    foreseen = {each["message_id"]: each["outlook"] for each in messages}
    failing = {name for name in rows if moto_stack.bench.deliver(record(booking(name))) != []}
    assert {name for name, outlook in foreseen.items() if outlook == "fails_again"} == failing
    assert {"no-payload_hash", "unreadable", "malformed-0"} <= failing
    assert set(foreseen.values()) == {"fails_again", "taken_over", "duplicate"}
    unread = {"where": "ledger", "key": "unreadable", "attribute": "result"}
    assert unread in document(invoke("check", "--json"), exit_code=1)["malformed"]


APPOINTMENTS = [
    ({"appointment_id": "m-1", "status": OTHER_TYPE}, "status"),
    ({"appointment_id": "m-1", "status": "cancelled", "practice": "A81001", "updated": "then"}, "updated"),
]


@pytest.mark.parametrize(("row", "attribute"), APPOINTMENTS)
def test_inspect_shows_a_malformed_appointment_and_its_forecast_comes_true(
    moto_stack: MotoStack, row: dict[str, Any], attribute: str
) -> None:
    write(moto_stack, "appointments", row)
    reported = {"where": "appointments", "key": "m-1", "attribute": attribute}
    assert reported in document(invoke("inspect", "m-1", "--json"))["malformed"]
    moto_stack.put_dead_letter(booking("m-1"))
    (letter,) = document(invoke("dlq", "list", "--json"))["messages"]
    fails = moto_stack.bench.deliver(record(booking("m-1"))) != []
    assert letter["outlook"] == ("fails_again" if fails else "done_before")


def test_timeline_omits_a_cancellation_without_a_time(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1")), record(cancellation("m-1", "c-1")))
    moto_stack.write_log()
    item = moto_stack.bench.dynamodb.get_item(TableName="appointments", Key={"appointment_id": {"S": "m-1"}})["Item"]
    del item["updated"]
    moto_stack.bench.dynamodb.put_item(TableName="appointments", Item=item)
    assert "Cancelled since, by c-1." in invoke("inspect", "m-1").stdout


def test_unknown_status_is_counted_as_unknown_and_not_judged(moto_stack: MotoStack) -> None:
    """No consumer takes such a row over, whatever it says of its lease: each delivery finds it busy."""
    moto_stack.bench.deliver(record(booking("m-1")))
    moto_stack.write_log()
    write(moto_stack, "ledger", ROW | {"status": "DONE", "lease_until": 0})
    counted = document(invoke("status", "--json"))["ledger"]
    assert counted == {"complete": 1, "in_progress": 0, "released": 0, "unknown": 1}
    judged = document(invoke("check", "--json"), exit_code=1)
    assert (judged["kind"], "by-hand" in judged["verdict"]) == ("unreadable", True)
    assert "the next delivery takes it over" not in invoke("inspect", "by-hand").stdout
    assert moto_stack.bench.deliver(record(booking("by-hand"))) != []


def test_status_names_the_first_ten_malformed_rows(moto_stack: MotoStack) -> None:
    for number in range(13):
        write(moto_stack, "ledger", {"message_id": f"by-hand-{number:02}", "consumption_count": 1, "updated": 1})
    reported = invoke("status").stdout
    assert reported.count("has no valid attribute status") == 10
    assert "... and 3 more: see --json." in reported
    assert len(document(invoke("status", "--json"))["malformed"]) == 13


LINE: dict[str, Any] = {"message": "delivery", "message_id": "m-1", "sqs_message_id": "s-1", "outcome": "duplicate"}
LINE |= {"sent": 1, "finished": 2, "receive_count": 1, "attempt_ms": 1}


def test_line_is_valid_when_it_has_one_of_both_ids(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1")))
    moto_stack.write_log()
    assert moto_stack.target.local is not None
    with Path(moto_stack.target.local.log_file).open("a") as file:
        for lacking in ("message_id", "sqs_message_id"):
            line = {name: value for name, value in LINE.items() if name != lacking}
            file.write(json.dumps(line | {"outcome": "busy"}) + "\n")
    assert document(invoke("check", "--json"))["counts"]["deliveries"] == 3
    assert len(document(invoke("inspect", "m-1", "--json"))["deliveries"]) == 2


DAMAGED = {
    "zeros": b'\0\0\0{"message": "delivery", "message_id": "m-2"}\n',
    "a byte that is no text": b'{"message": "delivery", "message_id": "m-\xff"}\n',
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_line_is_named_by_check_and_rejected_from_its_export(moto_stack: MotoStack, kind: str) -> None:
    """Both name the same attribute. Half a line, where a process was killed, says nothing."""
    assert moto_stack.target.local is not None
    log = Path(moto_stack.target.local.log_file)
    log.write_bytes(DAMAGED[kind] + json.dumps(LINE).encode() + b'\n{"message": "delivery", "mess\n')
    malformed: list[Malformed] = []
    assert [line["message_id"] for line in valid_deliveries(moto_stack.target, malformed)] == ["m-1"]
    assert malformed == [Malformed("delivery log", f"line 1 of {log}", "outcome")]

    exported = "".join(json.dumps(line) + "\n" for line in read_deliveries(moto_stack.target))

    source = model_of(CONSUMER).source_named("deliveries")
    first, second = lines.read_lines(source, exported.encode(), 1, lines.Window(None, 9))
    assert isinstance(first, lines.Reject)
    assert (first.line, first.attribute) == (1, "outcome")
    assert isinstance(second, lines.Read)


def test_malformed_line_is_named_by_its_event_on_aws(moto_stack: MotoStack) -> None:
    sound = json.dumps({**LINE, "message_id": "m-2"})
    malformed: list[Malformed] = []
    logs = Logs(json.dumps({"message": "delivery", "message_id": "m-1"}), sound)
    assert [line["message_id"] for line in valid_deliveries(moto_stack.on_aws(logs), malformed)] == ["m-2"]
    assert malformed == [Malformed("delivery log", "event e-1 of stream s", "outcome")]
