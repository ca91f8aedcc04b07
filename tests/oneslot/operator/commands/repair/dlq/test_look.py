"""`oneslot dlq`: forecasts, redrives, drops, and no patient's number in any output."""

from __future__ import annotations

import json

import pytest

from oneslot.local.aws.connection import Connection
from tests.kits.consumer import booking
from tests.kits.moto_stack import NOW, Functions, MotoStack, document, invoke, put_one_of_each


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
