"""`oneslot dlq`: what a redrive would do, the redrive itself with its journal, dropping; and nobody's number anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from oneslot.local.aws.connection import Connection
from oneslot.repair.journal import begin_journal, open_journal
from oneslot.repair.redrive import redrive
from oneslot.runtime.identity import payload_hash
from oneslot.runtime.sqs.dead_letters import QUARANTINE_ATTRIBUTES, peek
from oneslot.target import Target, local_target
from tests.kits.consumer import NHS_NUMBER, Intercepted, booking, cancellation, raising, record
from tests.kits.moto_stack import NOW, Functions, MotoStack, document, invoke


def one_of_each(stack: MotoStack) -> None:
    """Dead letters of every outlook, by their ids."""
    stack.bench.deliver(record(booking("duplicate", **NOW)), record(booking("done_before", **NOW)))
    stack.bench.deliver(record(booking("conflict", **NOW)))
    stack.bench.deliver(record(booking("forgotten", **NOW)))
    for name in ("done_before", "forgotten"):
        stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": name}})
    for name, lease in (("stuck", 1), ("busy", 4_000_000_000_000)):
        stack.bench.deliver(record(booking(name, **NOW)))
        stack.bench.dynamodb.update_item(
            TableName="ledger",
            Key={"message_id": {"S": name}},
            UpdateExpression="SET #status = :in_progress, lease_until = :lease REMOVE #result",
            ExpressionAttributeNames={"#status": "status", "#result": "result"},
            ExpressionAttributeValues={":in_progress": {"S": "IN_PROGRESS"}, ":lease": {"N": str(lease)}},
        )
        stack.bench.dynamodb.delete_item(TableName="appointments", Key={"appointment_id": {"S": name}})
    for name in ("duplicate", "done_before", "stuck", "busy", "retried"):
        stack.put_dead_letter(booking(name, **NOW))
    for name in ("conflict", "forgotten"):
        stack.put_dead_letter(booking(name, **NOW, service_type="Clinical Triage"))
    stack.put_dead_letter(booking("refused", not_before="2020-01-01T08:00:00Z", not_after="2020-01-02T08:00:00Z"))
    stack.put_dead_letter(booking("unknown", **NOW, practice="ZZZ999"))
    stack.put_dead_letter(cancellation("nobody", "cancelled"))
    stack.bench.deliver(record(booking("invalid", nhs_number="9990000019")), record("no JSON"))


def test_list_forecasts_a_redrive_of_each_letter(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
    listed = document(invoke("dlq", "list", "--json"))
    outlooks = {each["message_id"]: each["outlook"] for each in listed["messages"]}
    as_named = ("duplicate", "done_before", "stuck", "busy", "retried", "refused")
    assert {name: outlooks.pop(name) for name in as_named} == {name: name for name in as_named}
    assert outlooks.pop("cancelled") == "retried"
    assert outlooks == dict.fromkeys(["conflict", "forgotten", "unknown", "invalid", None], "fails_again")
    because = {each["message_id"]: each["because"] for each in listed["messages"]}
    assert "already complete (booked)" in because["duplicate"]
    for name in ("conflict", "forgotten"):
        assert "used before with other content" in because[name]
    assert because["unknown"] == ("practice ZZZ999 has no slots. Correct its code, or open its slots, then redrive")
    assert "nhs_number must be text of ten digits" in because["invalid"]
    assert because[None].startswith("the body must be one JSON object")
    assert listed["reasons"] == {"invalid_field": 1, "not_json": 1, "receives_exhausted": 10}
    told = invoke("dlq", "list")
    assert told.exit_code == 0
    assert "FAIL AGAIN" in told.stdout
    assert NHS_NUMBER not in told.output + json.dumps(listed)
    assert "9990000019" not in told.output + json.dumps(listed)
    assert len(peek(moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url)) == 12, "all are still there"


def test_redrive_brings_what_list_forecast(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
    moto_stack.bench.deliveries.clear()
    moved = document(invoke("dlq", "redrive", "--all", "--yes", "--json"))
    assert (moved["moved"], moved["method"]) == (12, "batches")
    moto_stack.consume()
    came_to = {
        delivery.message_id or "": (delivery.outcome, delivery.reason) for delivery in moto_stack.bench.deliveries
    }
    assert came_to["duplicate"][0] == "duplicate"
    assert came_to["done_before"][0] in ("booked", "duplicate")
    assert came_to["stuck"][0] == "waitlist"
    assert came_to["busy"][0] == "busy"
    assert came_to["retried"][0] == "waitlist"
    assert came_to["refused"] == ("refused", None)
    assert came_to["cancelled"][0] == "cancelled"
    fails_again = {
        "unknown": "unknown_practice",
        "invalid": "invalid_field",
        **dict.fromkeys(("conflict", "forgotten"), "conflict"),
    }
    for name, reason in fails_again.items():
        assert came_to[name] == ("quarantined", reason)
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"fails_again": 5}


@pytest.mark.parametrize(("switched_on", "outlook"), [("true", "retried"), ("false", "fails_again")])
def test_list_follows_the_consumers_deduplication_setting(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, switched_on: str, outlook: str
) -> None:
    monkeypatch.setattr(Connection, "functions", lambda _: Functions({"CONTENT_BASED_DEDUPLICATION": switched_on}))
    moto_stack.put_dead_letter(booking(None, **NOW))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {outlook: 1}


def test_list_forecasts_refusal_before_unknown_practice(moto_stack: MotoStack) -> None:
    """As the consumer has it: there is nothing to be mended, and nobody need seed slots of last year."""
    passed = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2020-01-02T08:00:00Z"}
    moto_stack.put_dead_letter(booking("late", practice="ZZZ999", **passed))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"refused": 1}
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    moto_stack.consume()
    assert json.loads(moto_stack.bench.row("late")["result"])["reason"] == "window_passed"


def test_show_omits_the_body(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
    shown = document(invoke("dlq", "show", "duplicate", "--json"))["messages"]
    assert [each["ledger"]["status"] for each in shown] == ["COMPLETE"]
    told = invoke("dlq", "show", "duplicate")
    assert "COMPLETE, booked, claimed once" in told.stdout
    assert NHS_NUMBER not in told.output + json.dumps(shown)
    missing = invoke("dlq", "show", "nobody")
    assert (missing.exit_code, "has no message nobody" in missing.stderr) == (1, True)


def test_list_keeps_ids_whole_when_columns_are_eighty(moto_stack: MotoStack) -> None:
    """A UUID is whole; the SQS id of a message without one, too, in its brackets."""
    moto_stack.put_dead_letter(booking("d13f401a-d8dd-4a0e-b0f6-257cd81c99d7", **NOW, practice="ZZZ999"))
    without_id = moto_stack.put_dead_letter({"type": "book"})
    told = invoke("dlq", "list", COLUMNS="80").stdout
    assert "│ d13f401a-d8dd-4a0e-b0f6-257cd81c99d7 " in told
    assert f"│ ({without_id}) │" in told
    assert max(map(len, told.splitlines())) == 80
    moto_stack.put_dead_letter(booking("m" * 100, **NOW, practice="ZZZ999"))
    sha = "5f" * 32
    moto_stack.put_dead_letter(booking(sha, **NOW, practice="ZZZ999"))
    for columns in ("40", "80"):
        lines = invoke("dlq", "list", COLUMNS=columns).stdout.splitlines()
        assert {"m" * 100, sha, f"({without_id})"} < set(lines), "one that is longer has a line of its own"
        (why,) = [line for at, line in enumerate(lines) if lines[at - 1] == sha]
        assert "practice ZZZ999 has no slots" in why
    assert f"│ {sha} " in invoke("dlq", "list", COLUMNS="160").stdout, "where there is room it is in the table"


def test_verbs_succeed_when_the_queue_is_empty(moto_stack: MotoStack) -> None:
    assert "The dead-letter queue is empty." in invoke("dlq", "list").stdout
    assert "No message has the reason conflict." in invoke("dlq", "list", "--reason", "conflict").stdout
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 0


def test_verbs_change_nothing_without_yes(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
    for verb in (["redrive"], ["drop", "--all", "--accept-loss"]):
        planned = invoke("dlq", *verb)
        assert planned.exit_code == 0
        assert "Nothing was changed. Add --yes to do it." in planned.stdout
        assert document(invoke("dlq", *verb, "--json"))["dry_run"] is True
    assert document(invoke("dlq", "list", "--json"))["count"] == 12
    assert not list(moto_stack.home.glob("redrive*"))
    assert not (moto_stack.home / "operator-log.jsonl").exists()


def test_redrive_leaves_what_would_fail_again(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
    result = document(invoke("dlq", "redrive", "--yes", "--json"))
    assert (result["moved"], len(result["left_alone"])) == (7, 5)
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"fails_again": 5}
    moved = document(invoke("dlq", "redrive", "invalid", "conflict", "--even-failing", "--yes", "--json"))
    assert moved["moved"] == 2


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
    assert "Not in the dead-letter queue: gone." in invoke("dlq", "redrive", "gone").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dlq", "redrive", "two words"], "MESSAGE_ID must be 1 to 128 letters"),
        (["dlq", "show", NHS_NUMBER], "That is an NHS number"),
        (["dlq", "redrive", "--all", "m-1"], "--all takes every message; leave out"),
        (["dlq", "redrive", "--all", "--file", __file__], "--all takes every message; leave out"),
        (["dlq", "drop", "--all", "--reason", "conflict"], "--all takes every message; leave out"),
        (["dlq", "redrive", "--resume", "m-1"], "--resume and --abandon keep the earlier selection"),
        (["dlq", "redrive", "--rate", "0"], "Invalid value for '--rate'"),
        (["dlq", "redrive", "--file", "nowhere"], "File 'nowhere' does not exist"),
        (["dlq", "redrive", "--file", __file__], "line 1: no valid message_id. Write each line as in"),
        (["dlq", "drop"], "Select the messages to drop: give message ids, --file, --reason or --all."),
        (["dlq", "fly"], "No such command 'fly'"),
        (["ledger", "forget"], "Missing argument 'MESSAGE_ID'"),
        (["ledger", "unlock", NHS_NUMBER], "That is an NHS number"),
    ],
)
def test_bad_argument_becomes_a_sentence(
    nothing_runs: Callable[..., Result], arguments: list[str], sentence: str
) -> None:
    result = nothing_runs(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert NHS_NUMBER not in result.output


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"message_id": "m-1", "action": "compare the rows"}', "line 1: the action is not 'redrive'"),
        (f'{{"message_id": "{NHS_NUMBER}"}}', "line 1: message_id is an NHS number"),
        ("[]", "line 1: no valid message_id"),
        ('{"message_id": "two words"}', "line 1: no valid message_id"),
        ("\xe9", "cannot be read as UTF-8 text"),
        ("", "names no message"),
    ],
)
def test_redrive_rejects_a_file_that_is_not_a_repair_list(
    nothing_runs: Callable[..., Result], tmp_path: Path, line: str, sentence: str
) -> None:
    path = tmp_path / "list.jsonl"
    path.write_text(line + "\n", encoding="latin-1")
    result = nothing_runs("dlq", "redrive", "--file", str(path))
    assert (result.exit_code, sentence in result.stderr) == (2, True)
    assert NHS_NUMBER not in result.output


# The redrive's steps


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


def planned(stack: MotoStack, count: int) -> frozenset[str]:
    return frozenset(stack.put_dead_letter(booking(f"m-{number}", **NOW)) for number in range(count))


def with_sqs(stack: MotoStack, client: Any) -> Target:
    """The target, its SQS client replaced."""
    assert stack.target.local is not None
    target = local_target(stack.target.local, stack.home)
    target.__dict__["sqs"] = client
    return target


@pytest.mark.parametrize("moment", ["before the send", "after the send", "before the delete", "after the delete"])
def test_redrive_resumes_without_loss_when_killed(moto_stack: MotoStack, moment: str) -> None:
    ids = planned(moto_stack, 25)
    when, _, call = moment.partition(" the ")
    name = {"send": "send_message_batch", "delete": "delete_message_batch"}[call]
    dying = Intercepted(moto_stack.bench.sqs, **{when: {name: raising(KeyboardInterrupt())}})
    target = with_sqs(moto_stack, dying)
    with pytest.raises(KeyboardInterrupt):
        redrive(target, begin_journal(target, ids, 500.0, {}), lambda _: None)
    journal = open_journal(moto_stack.target)
    assert journal is not None
    assert not journal.deleted
    refused = invoke("dlq", "redrive", "--yes")
    if moment != "after the delete" or peek(moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url):
        assert (refused.exit_code, "A redrive of Oneslot-dev is unfinished." in refused.stderr) == (1, True)
    assert "Interrupted redrive: 0 of 25 messages moved" in invoke("dlq", "redrive", "--resume").stdout
    resumed = document(
        invoke("dlq", "redrive", "--resume", "--yes", "--json"), exit_code=int(moment == "after the delete")
    )
    assert resumed["moved"] == (15 if moment == "after the delete" else 25)
    assert document(invoke("dlq", "list", "--json"))["count"] == 0
    moto_stack.consume()
    assert {row["message_id"] for row in moto_stack.bench.rows("ledger")} == {f"m-{number}" for number in range(25)}
    duplicates = [delivery for delivery in moto_stack.bench.deliveries if delivery.outcome == "duplicate"]
    assert len(duplicates) == (10 if moment == "after the send" else 0), "sent twice only if no journal could know"
    if moment == "after the delete":
        assert open_journal(moto_stack.target) is not None, "ten are gone, and nobody noted who took them"
        assert "Nothing was changed" in invoke("dlq", "redrive", "--abandon").stdout
        assert document(invoke("dlq", "redrive", "--abandon", "--yes", "--json"))["left"] == 10
    gone = invoke("dlq", "redrive", "--resume")
    assert (gone.exit_code, "Oneslot-dev has no interrupted redrive." in gone.stderr) == (1, True)


@pytest.mark.parametrize("passing", [("InternalError", False), ("RequestThrottled", True), ("KmsThrottled", True)])
def test_redrive_keeps_what_the_queue_rejects(moto_stack: MotoStack, passing: tuple[str, bool]) -> None:
    ids = planned(moto_stack, 3)
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

    target = with_sqs(moto_stack, Picky())
    done = redrive(target, begin_journal(target, ids, 500.0, {}), lambda _: None)
    assert (done.moved, list(done.refused.values()), done.unseen) == (2, ["InvalidMessageContents"], 0)
    assert [letter.message_id for letter in peek(sqs, target.outputs.dead_letter_queue_url)] == ["m-1"]


# Dropping


def test_drop_spares_requests_without_an_answer(moto_stack: MotoStack) -> None:
    one_of_each(moto_stack)
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
    """SQS hands out ten at a time, and refuses a call that deletes none of them."""
    planned(moto_stack, 25)
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
