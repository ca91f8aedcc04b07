"""`oneslot dlq`: forecasts, redrives with their journal, drops, and no patient's number in any output."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from oneslot.local.aws.connection import Connection
from oneslot.runtime.sqs.dead_letters import peek
from tests.kits.consumer import NHS_NUMBER, booking
from tests.kits.dead_letters import put_one_of_each
from tests.kits.moto_stack import NOW, Functions, MotoStack, document, invoke


def test_list_forecasts_a_redrive_of_each_letter(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
    listed = document(invoke("dlq", "list", "--json"))
    outlooks = {each["message_id"]: each["outlook"] for each in listed["messages"]}
    assert outlooks.pop("stuck") == "taken_over"
    as_named = ("duplicate", "done_before", "busy", "retried", "refused")
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
    assert "fail again" in told.stdout
    assert NHS_NUMBER not in told.output + json.dumps(listed)
    assert "9990000019" not in told.output + json.dumps(listed)
    assert len(peek(moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url)) == 12, "all are still there"


def test_redrive_brings_what_list_forecast(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
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
    """As the consumer does: nothing can be repaired, and slots of last year need no seeding."""
    passed = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2020-01-02T08:00:00Z"}
    moto_stack.put_dead_letter(booking("late", practice="ZZZ999", **passed))
    assert document(invoke("dlq", "list", "--json"))["outlooks"] == {"refused": 1}
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    moto_stack.consume()
    assert json.loads(moto_stack.bench.row("late")["result"])["reason"] == "window_passed"


def test_show_omits_the_body(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
    shown = document(invoke("dlq", "show", "duplicate", "--json"))["messages"]
    assert [each["ledger"]["status"] for each in shown] == ["COMPLETE"]
    told = invoke("dlq", "show", "duplicate")
    assert "COMPLETE, booked, claimed once" in told.stdout
    assert NHS_NUMBER not in told.output + json.dumps(shown)
    missing = invoke("dlq", "show", "nobody")
    assert (missing.exit_code, "has no message nobody" in missing.stderr) == (1, True)


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


def test_verbs_succeed_when_the_queue_is_empty(moto_stack: MotoStack) -> None:
    assert "The dead-letter queue is empty." in invoke("dlq", "list").stdout
    assert "No message has the reason conflict." in invoke("dlq", "list", "--reason", "conflict").stdout
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 0


def test_verbs_change_nothing_without_yes(moto_stack: MotoStack) -> None:
    put_one_of_each(moto_stack)
    for verb in (["redrive"], ["drop", "--all", "--accept-loss"]):
        planned = invoke("dlq", *verb)
        assert planned.exit_code == 0
        assert "Nothing was changed. Add --yes to do it." in planned.stdout
        assert document(invoke("dlq", *verb, "--json"))["dry_run"] is True
    assert document(invoke("dlq", "list", "--json"))["count"] == 12
    assert not list(moto_stack.home.glob("redrive*"))
    assert not (moto_stack.home / "operator-log.jsonl").exists()


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
