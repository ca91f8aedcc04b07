"""Three handwritten ledgers: get then put, get then put with conditions, and acquire, mark and release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lab.explore.clients import PortClient
from lab.explore.practice import LEDGER
from lab.peers.effects import message_id_of, take_slot
from oneslot.explorer.execution.process import LEASE_MS, InvocationContext, RunningInvocation
from oneslot.runtime.stores.expressions import error_code


class StillInProgress(Exception):
    """Another consumer seems to work on it, so the record fails and is redelivered."""


def get_then_put(
    process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """Read the row, decide, write the row, work, write the row: the ledger as it was first described."""
    client = PortClient(process)

    def handle(record: Mapping[str, Any]) -> None:
        message_id, now = message_id_of(record), process.clock
        row = _row(client, message_id)
        if _is_complete(row, now):
            return
        count = int(row.get("consumption_count", {"N": "0"})["N"]) + 1
        client.put_item(TableName=LEDGER, Item=_item(message_id, "IN_PROGRESS", count, now))
        take_slot(client, message_id)
        client.put_item(TableName=LEDGER, Item=_item(message_id, "COMPLETE", count, process.clock))

    return _each(records, handle)


def get_then_put_with_conditions(
    process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """Get, then put, each write on condition that the row is as it was read."""
    client = PortClient(process)

    def handle(record: Mapping[str, Any]) -> None:
        message_id, now = message_id_of(record), process.clock
        row = _row(client, message_id)
        if _is_complete(row, now):
            return
        count = int(row.get("consumption_count", {"N": "0"})["N"]) + 1
        unchanged: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(message_id)"}
        if row:
            unchanged = {
                "ConditionExpression": "consumption_count = :count",
                "ExpressionAttributeValues": {":count": row["consumption_count"]},
            }
        client.put_item(TableName=LEDGER, Item=_item(message_id, "IN_PROGRESS", count, now), **unchanged)
        take_slot(client, message_id)
        client.put_item(
            TableName=LEDGER,
            Item=_item(message_id, "COMPLETE", count, process.clock),
            ConditionExpression="consumption_count = :count",
            ExpressionAttributeValues={":count": {"N": str(count)}},
        )

    return _each(records, handle)


def acquire_mark_release(
    process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
) -> Mapping[str, Any]:
    """A lock library's verbs: a message that cannot be acquired counts as a duplicate; an exception deletes the row."""
    client = PortClient(process)

    def handle(record: Mapping[str, Any]) -> None:
        message_id = message_id_of(record)
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
            ExpressionAttributeValues={":done": {"S": "COMPLETE"}},
        )

    return _each(records, handle)


def _acquire(client: Any, message_id: str, now: int) -> bool:
    try:
        client.put_item(
            TableName=LEDGER,
            Item=_item(message_id, "IN_PROGRESS", 1, now),
            ConditionExpression="attribute_not_exists(message_id) OR (#status = :in_progress AND updated < :expired)",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":in_progress": {"S": "IN_PROGRESS"}, ":expired": {"N": str(now - LEASE_MS)}},
        )
    except ClientError as error:
        if error_code(error) != "ConditionalCheckFailedException":
            raise
        return False
    return True


def _row(client: Any, message_id: str) -> dict[str, Any]:
    answer = client.get_item(TableName=LEDGER, Key={"message_id": {"S": message_id}}, ConsistentRead=True)
    row: dict[str, Any] = answer.get("Item", {})
    return row


def _is_complete(row: Mapping[str, Any], now: int) -> bool:
    """Return whether the row is complete. Raises `StillInProgress` if another consumer may hold it."""
    if row.get("status") == {"S": "COMPLETE"}:
        return True
    if row and int(row["updated"]["N"]) + LEASE_MS >= now:
        raise StillInProgress
    return False


def _item(message_id: str, status: str, count: int, now: int) -> dict[str, Any]:
    return {
        "message_id": {"S": message_id},
        "status": {"S": status},
        "consumption_count": {"N": str(count)},
        "updated": {"N": str(now)},
    }


def _each(records: Sequence[dict[str, Any]], handle: Callable[[Mapping[str, Any]], None]) -> Mapping[str, Any]:
    """Handle each record, and report those that raise."""
    failed = []
    for record in records:
        try:
            handle(record)
        except Exception:
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
