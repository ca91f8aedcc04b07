"""The effect of the peers, which take a free slot once they own a request, and three handwritten ledgers.

Those are: get then put, get then put with conditions, and acquire, mark and release.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from lab.explore.ours import PortClient
from lab.explore.practice import APPOINTMENTS, CHANNEL, LEDGER, PRACTICE, SERVICE, SLOTS
from oneslot.explorer.execution.process import LEASE_MS, InvocationContext, RunningInvocation
from oneslot.explorer.scenario import Run
from oneslot.runtime.failures import cancellation_reasons, error_code
from oneslot.runtime.values import from_attributes, to_attributes


class StillInProgress(Exception):
    """Another consumer seems to work on it, so the record fails and is redelivered."""


def of_each_record(handle: Callable[[RunningInvocation, Any, str], None]) -> Run:
    """Return the program that handles the records of an invocation one by one, and reports those that raise.

    `handle` gets the process, its client, and the record's message id.
    """

    def program(
        process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
    ) -> Mapping[str, Any]:
        client, failed = PortClient(process), []
        for record in records:
            try:
                handle(process, client, message_id_of(record))
            except Exception:
                failed.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failed}

    return program


def _get_then_put(process: RunningInvocation, client: Any, message_id: str, *, checks: bool) -> None:
    """Read the row, decide, write the row, work, write the row; with `checks`, on condition that it is as it was read."""
    now = process.clock
    row = _row(client, message_id)
    if _is_complete(row, now):
        return
    count = row.get("consumption_count", 0)
    _put(client, _item(message_id, "IN_PROGRESS", count + 1, now), count if checks else None)
    take_slot(client, message_id)
    _put(client, _item(message_id, "COMPLETE", count + 1, process.clock), count + 1 if checks else None)


get_then_put = of_each_record(partial(_get_then_put, checks=False))
"""The ledger as it was first described."""

get_then_put_with_conditions = of_each_record(partial(_get_then_put, checks=True))
"""The same, with conditions."""


@of_each_record
def acquire_mark_release(process: RunningInvocation, client: Any, message_id: str) -> None:
    """A lock library's verbs: a message that cannot be acquired counts as a duplicate; an exception deletes the row."""
    if not _acquire(client, message_id, process.clock):
        return
    try:
        take_slot(client, message_id)
    except Exception:
        client.delete_item(TableName=LEDGER, Key={"message_id": {"S": message_id}})
        raise
    client.update_item(
        TableName=LEDGER,
        Key={"message_id": {"S": message_id}},
        UpdateExpression="SET #status = :done",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues=to_attributes({":done": "COMPLETE"}),
    )


def _acquire(client: Any, message_id: str, now: int) -> bool:
    try:
        client.put_item(
            TableName=LEDGER,
            Item=_item(message_id, "IN_PROGRESS", 1, now),
            ConditionExpression="attribute_not_exists(message_id) OR (#status = :in_progress AND updated < :expired)",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues=to_attributes({":in_progress": "IN_PROGRESS", ":expired": now - LEASE_MS}),
        )
    except ClientError as error:
        if error_code(error) != "ConditionalCheckFailedException":
            raise
        return False
    return True


def _put(client: Any, item: Mapping[str, Any], count: int | None) -> None:
    """Write a row, on condition that it has this count; for 0 that there is none, for None in any case."""
    condition: dict[str, Any] = {}
    if count == 0:
        condition = {"ConditionExpression": "attribute_not_exists(message_id)"}
    elif count:
        values = to_attributes({":count": count})
        condition = {"ConditionExpression": "consumption_count = :count", "ExpressionAttributeValues": values}
    client.put_item(TableName=LEDGER, Item=item, **condition)


def _row(client: Any, message_id: str) -> dict[str, Any]:
    answer = client.get_item(TableName=LEDGER, Key={"message_id": {"S": message_id}}, ConsistentRead=True)
    return from_attributes(answer.get("Item", {}))


def _is_complete(row: Mapping[str, Any], now: int) -> bool:
    """Return whether the row is complete. Raises `StillInProgress` if another consumer may hold it."""
    if row.get("status") == "COMPLETE":
        return True
    if row and row["updated"] + LEASE_MS >= now:
        raise StillInProgress
    return False


def _item(message_id: str, status: str, count: int, now: int) -> dict[str, Any]:
    return to_attributes({"message_id": message_id, "status": status, "consumption_count": count, "updated": now})


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
        ExpressionAttributeValues=to_attributes({":practice": practice, ":first": first, ":last": last}),
        Limit=1,
    )["Items"]
    return found[0] if found else None


def _taken(slot: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    return {
        "Key": {"practice": slot["practice"], "slot_id": slot["slot_id"]},
        "ConditionExpression": "#status = :free",
        "UpdateExpression": "SET #status = :busy, appointment_id = :appointment_id REMOVE free_key",
        "ExpressionAttributeNames": {"#status": "status"},
        "ExpressionAttributeValues": to_attributes({":free": "free", ":busy": "busy", ":appointment_id": message_id}),
    }
