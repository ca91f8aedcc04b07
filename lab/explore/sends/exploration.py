"""What a commit sends, and its relay, through every schedule: one send from its commit on, and then a row of many."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oneslot import Claim, Effects, MemoryLedger, Send
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
    "ONESLOT_SEND_LINES": "https://sqs.eu-west-2.amazonaws.com/000000000000/lines.fifo",
    "ONESLOT_SEND_NEWS": "arn:aws:sns:eu-west-2:000000000000:news",
}
MESSAGE, TURN = {"message_id": "o-1"}, {"turn": "relay"}
TABLES = {"ledger": "message_id", "orders": "order_id"}
DEAD = Send("news", "to a dead topic")
TWELVE, THIRTY = ([DEAD, *(Send("mails", number) for number in range(many))] for many in (12, 30))
IN_ORDER = [DEAD, *[Send("lines", number, group="g") for number in range(3)]]


def sent_as_committed(world: View) -> None:
    """a message is out under one id, and after its commit alone; it is in its row or sent; a FIFO group is out in its order"""
    row = {each["message_id"]: each for each in world["ledger"]}.get("o-1", {})
    complete = row.get("status") == "COMPLETE"
    sent = [
        (
            each["target"].rpartition("/")[2],
            each["parameters"]["MessageBody"],
            each["parameters"]["MessageAttributes"]["MessageDeduplicationId"]["StringValue"],
        )
        for each in world.effects
    ]
    assert complete or not sent, "sent without a commit"
    assert set(Counter(message[:2] for message in {*sent}).values()) <= {1}, "sent under two ids"
    held = json.loads(row.get("sends", "[]"))
    assert row.get("unsent", 0) == len(held), "another number than the row holds"
    known = {each["id"] for each in held} | {each for _, _, each in sent}
    committed = json.loads(row.get("result", "{}")).get("sends", 1)
    assert len(known) == committed or not complete, "taken out of the row, and never sent"
    assert committed == 1 or any(each["to"] == "news" for each in held), "the dead topic's message is out of the row"
    lines = {body for target, body, _ in sent if target == "lines.fifo"}
    assert lines == {str(place) for place in range(len(lines))}, "one of a FIFO group is out before another"


def explored() -> Result:
    """Explore one send, from its message on: two copies and one fault. It takes less than a minute."""
    return _explored([MESSAGE, TURN], [])


def many_explored(sends: Sequence[Send]) -> Result:
    """Explore two turns of the relay over a row of many sends, one of them to a dead topic, and one fault."""
    ledger = MemoryLedger()
    claim = ledger.claim("o-1", "h", ledger.surroundings.now_ms() + 30_000)
    assert isinstance(claim, Claim)
    ledger.commit(claim, Effects({"sends": len(sends)}, sends=sends))
    return _explored([TURN], [ledger.rows["o-1"]])


def _explored(messages: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> Result:
    return explore(
        "handler.handler",
        messages=messages,
        tables=TABLES,
        rows={"ledger": rows},
        env=ENVIRONMENT,
        law=sent_as_committed,
        path=Path(__file__).parent,
        copies=2,
        faults=1,
        receives=10,
        budget=600,
    )
