"""What an operator is told about a row whose messages are not sent: never a body."""

from __future__ import annotations

import json

from oneslot.runtime.values import to_attributes
from tests.kits.moto_stack import MotoStack, invoke

ROW = {
    "message_id": "m-unsent",
    "status": "COMPLETE",
    "consumption_count": 1,
    "updated": 1_700_000_000_000,
    "claimed_by": "c",
    "payload_hash": "h",
    "result": json.dumps({"outcome": "waitlist", "appointment_id": "m-unsent"}),
    "sends": json.dumps([{"id": "i", "to": "mails", "body": '"a private body"'}]),
    "unsent": 1,
}


def test_row_with_unsent_messages_says_how_to_send_them_and_what_its_loss_costs(moto_stack: MotoStack) -> None:
    table = moto_stack.target.outputs.ledger_table_name
    moto_stack.target.dynamodb.put_item(TableName=table, Item=to_attributes(ROW))

    shown, checked = invoke("ledger", "show", "m-unsent"), invoke("check")
    forgotten = invoke("ledger", "forget", "m-unsent")

    said = " ".join(shown.stdout.split())
    assert "1 of its messages are not marked as sent. If no relay sends them soon, `oneslot relay --once` does." in said
    assert "1 of its messages may never be sent, because the row alone holds them." in " ".join(
        forgotten.output.split()
    )
    assert "I13" in checked.stdout
    assert "private body" not in shown.output + checked.output + forgotten.output
