"""Repairs of one ledger row by hand. Each is conditional on the row that was looked at: what changed since is left alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, cast

from botocore.exceptions import ClientError

from appointments.invariants import result_of
from appointments.statuses import COMPLETE
from oneslot.errors import OneslotError
from oneslot.evidence.scanning import LEDGER, projection
from oneslot.evidence.unusable import sentences, unusable_in_ledger_row
from oneslot.repair.operator_log import BEGUN, DONE, NOT_DONE, AuditTrail
from oneslot.runtime.protocol import Claim
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import DynamoDB, error_code, from_attributes, to_attributes
from oneslot.target import Target

PATIENCE_MS = 10_000


class Standing(StrEnum):
    """How a row stands."""

    COMPLETE = "complete"
    LEASED = "leased"
    STUCK = "stuck"
    UNUSABLE = "unusable"


def read_row(target: Target, message_id: str) -> dict[str, Any]:
    """Return the row. Raises `OneslotError` if there is none."""
    answer = target.dynamodb.get_item(
        TableName=target.outputs.ledger_table_name,
        Key={"message_id": {"S": message_id}},
        ConsistentRead=True,
        **projection(LEDGER),
    )
    if "Item" not in answer:
        raise OneslotError(
            f"The ledger of {target.stack_name} has no row {message_id}: it never came, it was quarantined, or its row has "
            f"expired. See: {target.command(f'inspect {message_id}')}."
        )
    return from_attributes(answer["Item"])


def standing(row: Mapping[str, Any], now_ms: int) -> Standing:
    """Say how it stands at this time (epoch ms)."""
    if unusable_in_ledger_row(row):
        return Standing.UNUSABLE
    if row["status"] == COMPLETE:
        return Standing.COMPLETE
    return Standing.LEASED if row.get("lease_until", 0) >= now_ms else Standing.STUCK


def advice(target: Target, row: Mapping[str, Any], now_ms: int) -> str:
    """Say what that means, and what there is to do."""
    match standing(row, now_ms):
        case Standing.UNUSABLE:
            return " ".join(sentences(unusable_in_ledger_row(row), target.command))
        case Standing.COMPLETE:
            return f"Complete: {result_of(row).get('outcome')}. Every copy gets this answer again; there is nothing to repair."
        case Standing.LEASED:
            unlock_it = target.command(f"ledger unlock {row['message_id']}")
            return (
                f"A consumer has it for {(row['lease_until'] - now_ms) / 1000:.0f} s more. Wait for that; `{unlock_it}` "
                "ends the lease now, if you know that the consumer is dead."
            )
        case _:
            show_it = target.command(f"dlq show {row['message_id']}")
            return (
                "Begun and not finished; its lease is over, so the next delivery takes it over. If its copy is in the "
                f"dead-letter queue, `{show_it}` says what a redrive would do; if no "
                "queue holds one, have its producer send it again with the same message_id."
            )


def unlock(target: Target, row: Mapping[str, Any], trail: AuditTrail) -> None:
    """End the lease of the claim that was looked at, and of no other. Raises `OneslotError` if it is gone meanwhile.

    Safe also while its consumer lives: that is fenced, if another takes over before it commits.
    """
    trail.write("ledger unlock", {"message_id": row["message_id"], "before": dict(row)}, BEGUN)
    deadline = time.time_ns() // 1_000_000 + PATIENCE_MS
    claim = Claim(row["message_id"], row["claimed_by"], row["consumption_count"], deadline)
    ended = _protocol(target).release(claim)
    trail.write("ledger unlock", {"message_id": row["message_id"]}, DONE if ended else NOT_DONE)
    if not ended:
        raise OneslotError(
            f"Nothing was changed: {row['message_id']} was finished, or claimed by another, since you looked. Look again: "
            f"{_show(target, row)}."
        )


def _protocol(target: Target) -> DynamoDBLedger:
    return DynamoDBLedger(cast("DynamoDB", target.dynamodb), target.outputs.ledger_table_name, retention_seconds=None)


def forget(target: Target, row: Mapping[str, Any], trail: AuditTrail) -> None:
    """Delete the very row that was looked at. Raises `OneslotError` if it changed meanwhile."""
    trail.write("ledger forget", {"message_id": row["message_id"], "before": dict(row)}, BEGUN)
    try:
        target.dynamodb.delete_item(
            TableName=target.outputs.ledger_table_name,
            Key={"message_id": {"S": row["message_id"]}},
            **_as_it_was(row),
        )
    except ClientError as error:
        trail.write("ledger forget", {"message_id": row["message_id"]}, NOT_DONE, reason=error_code(error))
        if error_code(error) != "ConditionalCheckFailedException":
            raise
        raise OneslotError(
            f"Nothing was changed: {row['message_id']} has changed since you looked. Look again: {_show(target, row)}."
        ) from error
    trail.write("ledger forget", {"message_id": row["message_id"]}, DONE)


def _show(target: Target, row: Mapping[str, Any]) -> str:
    return target.command(f"ledger show {row['message_id']}")


def _as_it_was(row: Mapping[str, Any]) -> Any:
    """The condition that the row's status, claim and time are still these, or still missing."""
    names = ("status", "claimed_by", "updated")
    told = {name: row[name] for name in names if name in row}
    conditions = [f"#{name} = :{name}" if name in told else f"attribute_not_exists(#{name})" for name in names]
    values = to_attributes({f":{name}": _exact(value) for name, value in told.items()})
    return {
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        **({"ExpressionAttributeValues": values} if values else {}),
    }


def _exact(value: Any) -> Any:
    """A number with a fraction as DynamoDB takes it."""
    return Decimal(str(value)) if isinstance(value, float) else value


def consequences(target: Target, row: Mapping[str, Any]) -> str:
    """Say what forgetting this row brings about."""
    if unusable_in_ledger_row(row):
        return (
            "Nobody can tell from it what was done. The next copy of the message is processed as if it were the first: an "
            "appointment that the request has already is found, and answered again; a refusal is decided anew."
        )
    if row["status"] != COMPLETE:
        return (
            "The next copy of the message is processed as if it were the first; its consumption_count starts again at 1. "
            "Nothing was written for it, so nothing is left behind."
        )
    match result_of(row).get("outcome"):
        case "booked" | "waitlist":
            what = (
                "Its appointment stays, and keeps its slot. A copy that comes later still finds that appointment and gets "
                "the same answer, so nobody is booked twice, and another request under the same id is still a conflict. But if "
                "that one comes first, the id is its own from then on, and this one's copies are the conflict."
            )
        case "cancelled":
            what = "The appointment stays cancelled. A copy that comes later finds it so, and cancels nothing more."
        case _:
            what = "A copy that comes later is decided again, and may then get another answer than the first did."
    return (
        f"{what} `{target.command('check')}` and the audit report the missing row (I5r, I6) until such a copy comes, and then "
        "a consumption_count that starts again at 1 (I10): they see that something was deleted."
    )
