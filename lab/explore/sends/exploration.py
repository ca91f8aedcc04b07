"""A send and its relay: every schedule of two copies and one fault."""

from __future__ import annotations

from pathlib import Path

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import View
from oneslot.explorer.handlers.verdict import Result

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


def explored() -> Result:
    """Explore all schedules, which takes less than a minute."""
    return explore(
        "handler.handler",
        messages=[MESSAGE, TURN],
        tables={"ledger": "message_id", "orders": "order_id"},
        env=ENVIRONMENT,
        law=sent_as_committed,
        path=Path(__file__).parent,
        copies=2,
        faults=1,
        receives=10,
        budget=600,
    )
