"""A send and its relay, every schedule of two copies and one fault: out at least once, under one id, after its commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import View
from oneslot.explorer.handlers.verdict import Result

pytestmark = pytest.mark.slow

ENVIRONMENT = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000",
    "ONESLOT_QUEUE_URL": "https://sqs.eu-west-2.amazonaws.com/000000000000/orders",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://sqs.eu-west-2.amazonaws.com/000000000000/dead",
    "ONESLOT_TABLE_ORDERS": "orders",
    "ONESLOT_KEY_ORDERS": "order_id",
    "ONESLOT_SEND_MAILS": "https://sqs.eu-west-2.amazonaws.com/000000000000/mails",
}
MESSAGE = {"message_id": "o-1"}
TURN = {"detail-type": "the relay's turn", "source": "test"}


def sent_as_committed(world: View) -> None:
    """a message is out under one id, and after its commit alone"""
    rows = {row["message_id"]: row for row in world["ledger"]}
    complete = rows.get("o-1", {}).get("status") == "COMPLETE"
    mails = [effect["parameters"] for effect in world.effects if effect["target"].endswith("/mails")]
    assert complete or not mails, "sent without a commit"
    ids = {mail["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for mail in mails}
    assert len(ids) <= 1, "sent under two ids"
    if complete and "unsent" not in rows["o-1"]:
        assert mails, "marked as sent, and never sent"


def explored(handler: str) -> Result:
    given: dict[str, Any] = {"messages": [MESSAGE, TURN], "tables": {"ledger": "message_id", "orders": "order_id"}}
    return explore(
        f"sends.{handler}",
        **given,
        env=ENVIRONMENT,
        law=sent_as_committed,
        path=Path(__file__).parent,
        copies=2,
        faults=1,
        receives=10,
        budget=600,
    )


def test_message_goes_out_when_any_process_dies() -> None:
    result = explored("right")

    assert (result.holds, result.complete) == (True, True), result.verdict


def test_message_is_lost_when_the_row_is_marked_before_the_send() -> None:
    result = explored("mark_first")

    assert not result.holds
    assert "marked as sent, and never sent" in result.counterexample
