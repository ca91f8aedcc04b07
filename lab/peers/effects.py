"""The effect of the peers: they take a free slot once they own a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lab.explore.practice import APPOINTMENTS, CHANNEL, PRACTICE, SERVICE, SLOTS
from oneslot.runtime.stores.expressions import cancellation_reasons, error_code

WAITLIST = {"outcome": "waitlist"}
FIRST, LAST = f"{CHANNEL}#{SERVICE}#", f"{CHANNEL}#{SERVICE}#~"


def take_slot(
    client: Any, message_id: str, practice: str = PRACTICE, first: str = FIRST, last: str = LAST
) -> dict[str, Any]:
    """Mark a free slot busy on condition that it is still free; otherwise take the next one.

    `first` and `last`: the range of the index's keys that suit the request.
    """
    while True:
        slot = _first_free(client, practice, first, last)
        if slot is None:
            return dict(WAITLIST)
        try:
            client.update_item(TableName=SLOTS, **_taken(slot, message_id))
        except ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            continue
        return {"outcome": "booked", "slot_id": slot["slot_id"]["S"]}


def take_slot_once(client: Any, message_id: str) -> dict[str, Any]:
    """Take a slot in one transaction with the appointment, which can exist once; an existing one is the answer."""
    while True:
        slot = _first_free(client, PRACTICE, FIRST, LAST)
        if slot is None:
            return dict(WAITLIST)
        appointment = {"appointment_id": {"S": message_id}, "slot_id": slot["slot_id"]}
        try:
            client.transact_write_items(
                TransactItems=[
                    {"Update": {"TableName": SLOTS, **_taken(slot, message_id)}},
                    {
                        "Put": {
                            "TableName": APPOINTMENTS,
                            "Item": appointment,
                            "ConditionExpression": "attribute_not_exists(appointment_id)",
                        }
                    },
                ]
            )
        except ClientError as error:
            if error_code(error) != "TransactionCanceledException":
                raise
            of_slot, of_appointment = (reason["Code"] for reason in cancellation_reasons(error))
            if of_appointment == "ConditionalCheckFailed":
                return {"outcome": "booked", "appointment_id": message_id}
            if of_slot != "ConditionalCheckFailed":
                raise
            continue
        return {"outcome": "booked", "appointment_id": message_id}


def message_id_of(record: Mapping[str, Any]) -> str:
    """Return the id that the message carries."""
    return str(json.loads(record["body"])["message_id"])


def _first_free(client: Any, practice: str, first: str, last: str) -> dict[str, Any] | None:
    found = client.query(
        TableName=SLOTS,
        IndexName="free_slots",
        ConsistentRead=True,
        KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
        ExpressionAttributeValues={
            ":practice": {"S": practice},
            ":first": {"S": first},
            ":last": {"S": last},
        },
        Limit=1,
    )["Items"]
    return found[0] if found else None


def _taken(slot: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    return {
        "Key": {"practice": slot["practice"], "slot_id": slot["slot_id"]},
        "ConditionExpression": "#status = :free",
        "UpdateExpression": "SET #status = :busy, appointment_id = :appointment_id REMOVE free_key",
        "ExpressionAttributeNames": {"#status": "status"},
        "ExpressionAttributeValues": {
            ":free": {"S": "free"},
            ":busy": {"S": "busy"},
            ":appointment_id": {"S": message_id},
        },
    }
