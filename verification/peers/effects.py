"""What the exhibits do when they are sure that a request is theirs: take a free slot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from oneslot.explorer.world import APPOINTMENTS, SLOTS
from oneslot.runtime.stores.expressions import cancellation_reasons, error_code
from verification.scenarios.messages import CHANNEL, PRACTICE, SERVICE

WAITLIST = {"outcome": "waitlist"}


def take_slot(client: Any, message_id: str) -> dict[str, Any]:
    """Find a free slot and mark it busy, on condition that it is still free; if it is not, take the next one."""
    while True:
        slot = _first_free(client)
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
    """The same in one transaction with the appointment, which can be made only once; one that exists is the answer."""
    while True:
        slot = _first_free(client)
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
    """The id that the message itself carries."""
    return str(json.loads(record["body"])["message_id"])


def _first_free(client: Any) -> dict[str, Any] | None:
    found = client.query(
        TableName=SLOTS,
        IndexName="free_slots",
        ConsistentRead=True,
        KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
        ExpressionAttributeValues={
            ":practice": {"S": PRACTICE},
            ":first": {"S": f"{CHANNEL}#{SERVICE}#"},
            ":last": {"S": f"{CHANNEL}#{SERVICE}#~"},
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
