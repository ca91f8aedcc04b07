"""A missing table: verbs show the rest, name the table, and never report a sound result."""

from __future__ import annotations

import json

import pytest

from tests.kits.consumer import Intercepted, booking, raising, record, service_error
from tests.kits.moto_stack import NOW, MotoStack, document, invoke

TABLES = ("ledger", "slots", "appointments")


def without(stack: MotoStack, table: str) -> MotoStack:
    """Fill every table and queue of the stack, and delete one table."""
    stack.bench.deliver(record(booking("m-1", **NOW)))
    stack.write_log()
    stack.put_dead_letter(booking("m-1", **NOW))
    stack.put_dead_letter(booking("m-2", **NOW))
    stack.put_dead_letter("no JSON")
    assert invoke("check").exit_code == 0
    stack.bench.dynamodb.delete_table(TableName=table)
    return stack


@pytest.mark.parametrize("table", TABLES)
def test_status_shows_the_rest_when_a_table_is_missing(moto_stack: MotoStack, table: str) -> None:
    without(moto_stack, table)
    shown = document(invoke("status", "--json"), 1)
    assert shown["missing"] == [{"table": table, "name": table}]
    assert shown["dead_letters"] == 3
    there = {
        "ledger": {"complete": 1, "in_progress": 0, "released": 0, "unknown": 0},
        "slots": {"busy": 1, "free": 2},
        "appointments": {"booked": 1},
    }
    gone = dict.fromkeys(there["ledger"]) if table == "ledger" else None
    assert {name: shown[name] for name in TABLES} == there | {table: gone}
    people = invoke("status")
    assert people.exit_code == 1
    assert f"The table {table} ({table}) is missing" in people.stdout
    assert "runbooks.md#restore-a-deleted-table has the steps" in people.stdout
    assert "unknown" in people.stdout


def test_watch_shows_the_queue_when_the_ledger_is_missing(moto_stack: MotoStack) -> None:
    without(moto_stack, "ledger")
    watched = document(invoke("watch", "--timeout", "0.1", "--interval", "0.1", "--json"), 1)
    assert (watched["dead_letters"], watched["complete"], watched["in_progress"]) == (3, None, None)
    people = invoke("watch", "--timeout", "0.1", "--interval", "0.1")
    assert "ledger unknown complete, unknown in progress" in people.stderr
    assert "The table ledger (ledger) is missing" in people.stdout


@pytest.mark.parametrize("table", TABLES)
def test_check_judges_nothing_when_a_table_is_missing(moto_stack: MotoStack, table: str) -> None:
    without(moto_stack, table)
    checked = document(invoke("check", "--json"), 1)
    assert (checked["holds"], checked["kind"]) == (False, "unreadable")
    assert checked["missing"] == [{"table": table, "name": table}]
    assert f"No verdict: the table {table} ({table}) is missing." in checked["verdict"]
    counts = checked["counts"]
    assert (counts["deliveries"], counts["lost"], counts["double_booked"]) == (1, None, None)
    assert counts["completed"] == (None if table == "ledger" else 1)
    assert counts["requests"] is counts["verdicts"] is None
    assert json.loads(moto_stack.target.report.read_text())["holds"] is False
    people = invoke("check")
    assert (people.exit_code, "runbooks.md#restore-a-deleted-table has the steps" in people.stdout) == (1, True)


def test_check_leaves_no_report_when_it_fails(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("check").exit_code == 1
    assert moto_stack.target.report.exists()

    def refuse(*_: object) -> None:
        raise service_error("AccessDeniedException", "Scan")

    monkeypatch.setattr("oneslot.evidence.gathering.scan", refuse)
    failed = invoke("check")
    assert (failed.exit_code, "AccessDeniedException" in failed.stderr) == (1, True)
    assert not moto_stack.target.report.exists()


@pytest.mark.parametrize(
    ("table", "outlooks"),
    [
        ("ledger", ["fails_again"] * 3),
        ("appointments", ["duplicate", "fails_again", "fails_again"]),
        ("slots", ["duplicate", "fails_again", "fails_again"]),
    ],
)
def test_dlq_lists_letters_when_a_table_is_missing(moto_stack: MotoStack, table: str, outlooks: list[str]) -> None:
    without(moto_stack, table)
    listed = document(invoke("dlq", "list", "--json"), 1)
    assert listed["missing"] == [{"table": table, "name": table}]
    assert sorted(each["outlook"] for each in listed["messages"]) == outlooks
    because = {each["message_id"]: each["because"] for each in listed["messages"]}
    assert (
        because["m-2"] == f"the table {table} ({table}) is missing, so every delivery fails. Restore it, then redrive"
    )
    assert because[None].startswith("the body must be one JSON object"), "of this no table decides"
    people = invoke("dlq", "list")
    assert (people.exit_code, f"The table {table} ({table}) is missing" in people.stdout) == (1, True)
    assert "m-2" in people.stdout
    shown = document(invoke("dlq", "show", "m-2", "--json"), 1)
    assert (shown["count"], len(shown["missing"])) == (1, 1)


@pytest.mark.parametrize("table", TABLES)
def test_inspect_shows_a_request_when_a_table_is_missing(moto_stack: MotoStack, table: str) -> None:
    without(moto_stack, table)
    found = document(invoke("inspect", "m-1", "--json"), 1)
    assert found["missing"] == [{"table": table, "name": table}]
    assert (len(found["deliveries"]), len(found["dead_letters"])) == (1, 1)
    assert (found["ledger"] is None) == (table == "ledger")
    assert set(found["rows"]) == {"slots", "appointments"} - {table}
    people = invoke("inspect", "m-1")
    assert (people.exit_code, f"The table {table} ({table}) is missing" in people.stdout) == (1, True)
    assert people.stdout.startswith("m-1\nBooked: A81001, ")
    assert ("The ledger is missing; the row in appointments shows the answer." in people.stdout) == (table == "ledger")


def test_inspect_says_nothing_of_a_missing_table(moto_stack: MotoStack) -> None:
    without(moto_stack, "ledger")
    moto_stack.bench.dynamodb.delete_item(TableName="appointments", Key={"appointment_id": {"S": "m-1"}})
    moto_stack.bench.sqs.purge_queue(QueueUrl=moto_stack.target.outputs.dead_letter_queue_url)
    summary = document(invoke("inspect", "m-1", "--json"), 1)["summary"]
    assert summary == "Unknown: the table ledger (ledger) is missing."
    nobody = invoke("inspect", "nobody")
    assert (nobody.exit_code, "Nothing is known of nobody" in nobody.stderr) == (1, True)
    assert "The table ledger (ledger) is missing" in nobody.stderr


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "verb", [("redrive", "--all"), ("redrive", "--even-failing"), ("drop", "--all", "--accept-loss")]
)
def test_dlq_changes_nothing_when_a_table_is_missing(moto_stack: MotoStack, table: str, verb: tuple[str, ...]) -> None:
    """The effect of a change is unknown without the table."""
    without(moto_stack, table)
    refused = invoke("dlq", *verb, "--yes")
    assert (refused.exit_code, "Nothing was changed. The table" in refused.stderr) == (1, True), refused.output
    assert len(document(invoke("dlq", "list", "--json"), 1)["messages"]) == 3


def test_list_fails_when_aws_refuses_otherwise(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    moto_stack.put_dead_letter(booking("m-2", **NOW))
    refused = Intercepted(
        moto_stack.bench.dynamodb, before={"batch_get_item": raising(service_error("AccessDeniedException"))}
    )
    monkeypatch.setattr("oneslot.local.aws.connection.Connection.dynamodb", lambda _: refused)
    failed = invoke("dlq", "list")
    assert (failed.exit_code, "AccessDeniedException" in failed.stderr) == (1, True)


def test_check_shows_its_verdict_when_the_report_is_unwritable(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record(booking("m-1", **NOW)))
    moto_stack.write_log()
    moto_stack.target.report.mkdir()
    said = f"{moto_stack.target.report} cannot be written (Is a directory), so this check has no report."
    checked = document(invoke("check", "--json"), 1)
    assert (checked["kind"], checked["unwritten"]) == ("holds", [said])
    people = invoke("check")
    assert people.exit_code == 1
    assert "Sound: the only request has" in people.stdout
    assert said in people.stdout


@pytest.mark.parametrize("drain", [[], ["--until-drained"]])
def test_watch_ends_with_130_when_interrupted_at_once(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, drain: list[str]
) -> None:
    """Status 1 would say that the queue is not drained, or that a table is missing."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oneslot.commands.watch.Observer.look", interrupt)
    ended = invoke("watch", *drain)
    assert (ended.exit_code, "Interrupted" in ended.stderr) == (130, True)
