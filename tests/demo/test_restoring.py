"""`oneslot restore` changes a paused consumer's rows only, each as it was seen, and logs what it replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo import restoring
from oneslot.operator.evidence.operator_log import read_lines
from oneslot.runtime.values import from_attributes, to_attributes
from tests.kits.consumer import NHS_NUMBER, booking, record
from tests.kits.moto_stack import MotoStack, document, invoke
from tests.oneslot.operator.commands.repair.test_pause import on_aws  # noqa: F401 - a fixture

SINCE = ("--since", "2100-01-01T00:00:00Z")
PAUSE = ("pause", "--reason", "restoring", "--yes")
KEYS = {"ledger": {"message_id": "m-1"}, "appointments": {"appointment_id": "m-1"}}


@pytest.fixture
def damaged(moto_stack: MotoStack) -> MotoStack:
    """A paused stack with one booking, whose ledger row, appointment and slot differ from the restored tables."""
    moto_stack.bench.deliver(record(booking("m-1")))
    restore_beside(moto_stack, "-before")
    for table, key in KEYS.items():
        overwrite(moto_stack, table, key, "damage")
    assert invoke(*PAUSE).exit_code == 0
    return moto_stack


def restore_beside(stack: MotoStack, suffix: str) -> None:
    """Copy each table as it is now."""
    client = stack.bench.dynamodb
    for table in restoring.TABLES:
        described = client.describe_table(TableName=table)["Table"]
        keys = {key["AttributeName"] for key in described["KeySchema"]}
        client.create_table(
            TableName=f"{table}{suffix}",
            KeySchema=described["KeySchema"],
            AttributeDefinitions=[each for each in described["AttributeDefinitions"] if each["AttributeName"] in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        for item in client.scan(TableName=table)["Items"]:
            client.put_item(TableName=f"{table}{suffix}", Item=item)


def overwrite(stack: MotoStack, table: str, key: dict[str, str], status: str) -> None:
    stack.bench.dynamodb.update_item(
        TableName=table,
        Key=to_attributes(key),
        UpdateExpression="SET #status = :status",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues=to_attributes({":status": status}),
    )


def test_restore_names_the_restored_tables_that_are_missing(moto_stack: MotoStack) -> None:
    refused = invoke("restore", *SINCE, "--suffix", "-then")
    names = "appointments-then, ledger-then, slots-then"
    assert f"There is no restored table {names}. Restore each table beside the deployed one first" in refused.stderr
    assert (refused.exit_code, "Part of the stack" in refused.stderr) == (2, False)


def row(stack: MotoStack, table: str) -> dict[str, Any]:
    found = stack.bench.dynamodb.get_item(TableName=table, Key=to_attributes(KEYS[table]), ConsistentRead=True)
    return from_attributes(found.get("Item", {}))


def restored_log(stack: MotoStack) -> list[dict[str, Any]]:
    return [line for line in read_lines(stack.home / "operator-log.jsonl") if line["action"] == "restore"]


def meanwhile(stack: MotoStack, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let another writer make a change between the comparison and the first write."""
    compare = restoring.differences

    def compared(*arguments: Any, **options: Any) -> list[Any]:
        found = list(compare(*arguments, **options))
        change()
        return found

    monkeypatch.setattr("demo.commands.restore.differences", compared)


def test_restore_puts_rows_back_and_logs_the_earlier_ones(damaged: MotoStack) -> None:
    earlier = row(damaged, "ledger")
    done = document(invoke("restore", *SINCE, "--yes", "--json"))

    assert (done["counts"], done["left"]) == ({"goes back": 2}, [])
    assert done["operator_log"] == str(damaged.home / "operator-log.jsonl")
    assert (row(damaged, "ledger")["status"], row(damaged, "appointments")["status"]) == ("COMPLETE", "booked")
    lines = restored_log(damaged)
    assert [(line["table"], line["outcome"]) for line in lines] == [
        ("appointments", "begun"),
        ("appointments", "done"),
        ("ledger", "begun"),
        ("ledger", "done"),
    ]
    assert lines[2]["before"] == earlier
    assert lines[0]["before"]["status"] == "damage"
    assert NHS_NUMBER not in (damaged.home / "operator-log.jsonl").read_text()


def test_restore_is_undone_from_tables_as_of_its_first_line(damaged: MotoStack) -> None:
    restore_beside(damaged, "-undo")
    earlier = {table: row(damaged, table) for table in KEYS}
    invoke("restore", *SINCE, "--yes")
    assert row(damaged, "ledger") != earlier["ledger"]

    undone = document(invoke("restore", *SINCE, "--suffix", "-undo", "--everything", "--yes", "--json"))

    assert undone["counts"] == {"goes back": 2}
    assert {table: row(damaged, table) for table in KEYS} == earlier


def resume(_: MotoStack) -> None:
    invoke("resume", "--yes")


def receive(stack: MotoStack) -> None:
    url = stack.target.outputs.queue_url
    stack.bench.sqs.send_message(QueueUrl=url, MessageBody="{}")
    stack.bench.sqs.receive_message(QueueUrl=url)


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (resume, ["Oneslot-dev is not paused", "oneslot pause --reason TEXT --yes"]),
        (receive, ["1 message is in flight. Stop every worker"]),
    ],
)
def test_restore_refuses_without_a_standstill(
    damaged: MotoStack,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[MotoStack], None],
    said: list[str],
    moment: str,
) -> None:
    if moment == "before":
        change(damaged)
        assert document(invoke("restore", *SINCE, "--json"))["counts"] == {"goes back": 2}, "a look needs no pause"
    else:
        meanwhile(damaged, monkeypatch, lambda: change(damaged))
    error = document(invoke("restore", *SINCE, "--yes", "--json"), 1)["error"]
    assert [part for part in said if part not in error] == []
    assert (row(damaged, "ledger")["status"], restored_log(damaged)) == ("damage", [])


def test_restore_refuses_when_the_mapping_is_still_being_disabled(
    damaged: MotoStack,
    on_aws: Any,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oneslot.operator.commands.frame.open_target", lambda _: on_aws)
    read = on_aws.functions.get_event_source_mapping
    monkeypatch.setattr(
        on_aws.functions, "get_event_source_mapping", lambda **named: {**read(**named), "State": "Disabling"}
    )
    said = document(invoke("restore", *SINCE, "--yes", "--json"), 1)["error"]
    assert "AWS still switches off the mapping" in said


def test_restore_names_and_leaves_a_row_that_changed_since_it_was_compared(
    damaged: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(damaged, monkeypatch, lambda: overwrite(damaged, "ledger", KEYS["ledger"], "IN_PROGRESS"))

    result = invoke("restore", *SINCE, "--yes")

    assert (result.exit_code, row(damaged, "ledger")["status"]) == (1, "IN_PROGRESS")
    assert "Left as it is, because it has changed since it was compared: ledger  m-1." in result.stdout
    assert row(damaged, "appointments")["status"] == "booked"
    assert [line["outcome"] for line in restored_log(damaged)] == ["begun", "done", "begun", "not done"]


def test_restore_overwrites_no_row_that_appeared_since_it_was_compared(
    damaged: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = damaged.bench.dynamodb
    client.delete_item(TableName="ledger", Key=to_attributes(KEYS["ledger"]))
    again = to_attributes({**KEYS["ledger"], "status": "IN_PROGRESS"})
    meanwhile(damaged, monkeypatch, lambda: client.put_item(TableName="ledger", Item=again))

    left = document(invoke("restore", *SINCE, "--yes", "--json"), 1)["left"]

    assert (left, row(damaged, "ledger")["status"]) == ([{"table": "ledger", "key": KEYS["ledger"]}], "IN_PROGRESS")
