"""`oneslot dlq`: a redrive brings what the list forecast, a drop what it logged, and neither loses a message."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneslot.local.aws.connection import Connection
from oneslot.operator.evidence.operator_log import drops, open_operator_log
from oneslot.operator.repair.forecast import forecast_all
from oneslot.operator.repair.redrive import Redrive, drop, redrive
from oneslot.runtime.record import payload_hash
from oneslot.runtime.sqs.dead_letters import peek
from oneslot.runtime.sqs.queue import QUARANTINE_ATTRIBUTES
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import NHS_NUMBER, Intercepted, Killed, booking, raising, record
from tests.kits.moto_stack import NOW, Functions, MotoStack, document, invoke, put_bookings, put_one_of_each


def test_redrive_brings_what_list_forecast(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
    moto_stack.bench.deliveries.clear()
    moved = document(invoke("dlq", "redrive", "--all", "--yes", "--json"))
    assert moved["moved"] == 12
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
    """As the consumer does: nothing can be repaired, and slots of last year need no seeding."""
    passed = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2020-01-02T08:00:00Z"}
    moto_stack.put_dead_letter(booking("late", practice="ZZZ999", **passed))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"refused": 1}
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    moto_stack.consume()
    assert json.loads(moto_stack.bench.row("late")["result"])["reason"] == "window_passed"


def test_list_keeps_ids_whole_when_columns_are_eighty(moto_stack: MotoStack) -> None:
    """A UUID stays whole, and so does the SQS id in brackets of a message without an id."""
    moto_stack.put_dead_letter(booking("d13f401a-d8dd-4a0e-b0f6-257cd81c99d7", **NOW, practice="ZZZ999"))
    without_id = moto_stack.put_dead_letter({"type": "book"})
    told = invoke("dlq", "list", COLUMNS="80").stdout
    assert "│ d13f401a-d8dd-4a0e-b0f6-257cd81c99d7 " in told
    assert f"│ ({without_id}) │" in told
    assert max(len(line) for line in told.splitlines() if line[0] in "│┃") == 80
    moto_stack.put_dead_letter(booking("m" * 100, **NOW, practice="ZZZ999"))
    sha = "5f" * 32
    moto_stack.put_dead_letter(booking(sha, **NOW, practice="ZZZ999"))
    for columns in ("40", "80"):
        lines = invoke("dlq", "list", COLUMNS=columns).stdout.splitlines()
        assert {"m" * 100, sha, f"({without_id})"} < set(lines), "one that is longer has a line of its own"
        (why,) = [line for at, line in enumerate(lines) if lines[at - 1] == sha]
        assert "practice ZZZ999 has no slots" in why
    assert f"│ {sha} " in invoke("dlq", "list", COLUMNS="160").stdout, "where there is room it is in the table"


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


def test_redrive_returns_a_message_unchanged_but_for_the_reason(moto_stack: MotoStack) -> None:
    """A redrive in batches keeps every byte of a Binary attribute."""
    sqs, outputs = moto_stack.bench.sqs, moto_stack.target.outputs
    attributes: dict[str, Any] = {
        "MessageDeduplicationId": {"DataType": "String", "StringValue": "m-1"},
        "trace": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
        "picture": {"DataType": "Binary.png", "BinaryValue": b"\x89PNG\x00"},
        "weight": {"DataType": "Number", "StringValue": "7.50"},
    }
    reason = {name: {"DataType": "String", "StringValue": "of the last time"} for name in QUARANTINE_ATTRIBUTES}
    body = json.dumps(booking(None, **NOW))
    sqs.send_message(
        QueueUrl=outputs.dead_letter_queue_url, MessageBody=body, MessageAttributes={**attributes, **reason}
    )
    assert document(invoke("dlq", "redrive", "--all", "--yes", "--json"))["moved"] == 1
    (message,) = sqs.receive_message(QueueUrl=outputs.queue_url, MessageAttributeNames=["All"])["Messages"]
    assert (message["MessageAttributes"], message["Body"]) == (attributes, body)


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


@pytest.fixture
def fifo_stack(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> MotoStack:
    """The stack with FIFO queues."""
    urls = {
        field: moto_stack.bench.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
        for field, name in (("queue_url", "requests.fifo"), ("dead_letter_queue_url", "dead-letters.fifo"))
    }
    target = replace(moto_stack.target, outputs=replace(moto_stack.target.outputs, **urls))
    monkeypatch.setattr("oneslot.operator.options.open_target", lambda _: target)
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


def test_drop_takes_a_letter_when_its_request_was_answered_since(moto_stack: MotoStack) -> None:
    """Not one that came after the answer: its sender may have meant another request."""
    for nhs_number in (NHS_NUMBER, "9990000019"):
        moto_stack.bench.deliver(record(booking("m-1", nhs_number=nhs_number)))
    assert document(invoke("dlq", "drop", "--all", "--yes", "--json"), exit_code=1)["dropped"] == 0
    row = moto_stack.bench.rows("ledger")[0] | {"updated": 4_000_000_000_000}
    moto_stack.bench.dynamodb.put_item(TableName="ledger", Item=to_attributes(row))
    result = document(invoke("dlq", "drop", "--all", "--yes", "--json"))
    assert (result["dropped"], result["outlooks"]) == (1, {"corrected": 1})


def test_inspect_shows_what_an_operator_did(moto_stack: MotoStack) -> None:
    """And an answer by a worker, whose lines are not in the delivery log."""
    put_bookings(moto_stack, 2)
    document(invoke("dlq", "redrive", "m-0", "--yes", "--json"))
    moto_stack.bench.deliver(record(booking("m-0")))
    document(invoke("dlq", "drop", "m-1", "--accept-loss", "--yes", "--json"))
    redriven, dropped = (document(invoke("inspect", each, "--json")) for each in ("m-0", "m-1"))
    whats = [each["what"] for each in redriven["timeline"]]
    assert [what for what in whats if "redrive" in what][-1].endswith(": done")
    assert "booked, by the ledger; the delivery log has no line of it" in whats
    assert dropped["summary"] == "Dropped without an answer: an operator deleted its dead letter for good."
    assert [each["what"].rpartition(" ")[2] for each in dropped["timeline"]] == ["begun", "done"]


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
    assert "Dropped without an answer" in invoke("ledger", "show", "m-1").stdout
    assert document(invoke("check", "--json"))["counts"]["lost"] == 0
    audit = moto_stack.home / "operator-log.jsonl"
    audit.write_text(audit.read_text().replace(moto_stack.target.identity, "another stack"))
    assert document(invoke("check", "--json"), exit_code=1)["counts"]["lost"] == 1


def drop_all(stack: MotoStack, sqs: Any) -> None:
    """Drop every dead letter, with this client."""
    chosen = {each.letter.sqs_message_id: each for each in forecast_all(stack.target)[0]}
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
