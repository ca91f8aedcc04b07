"""Repairs of one ledger row by hand, each conditional on the row that the operator saw."""

from collections.abc import Mapping
from typing import Any, cast

from botocore.exceptions import ClientError

from oneslot.errors import RowChanged, RowNotFound
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.laws.traces import COMPLETE, outcome_of
from oneslot.operator.evidence import tables
from oneslot.operator.evidence.malformed import Standing, format_malformed, malformed_ledger_row, standing
from oneslot.operator.evidence.operator_log import BEGUN, DONE, DROPPED, NOT_DONE, OperatorLog, changes, dropped_at
from oneslot.operator.target import Target
from oneslot.runtime.failures import error_code
from oneslot.runtime.protocol import UNSENT, Claim
from oneslot.runtime.stores.dynamodb import DynamoDB, DynamoDBLedger
from oneslot.runtime.values import to_attributes

UNLOCK, FORGET = "ledger unlock", "ledger forget"
RELEASE_WITHIN_MS = 10_000
COMPARED = ("status", "claimed_by", "updated")
"""The attributes that every write of the consumer changes."""
AGAIN = "A later copy is decided again, and may get another answer."


def read_row(target: Target, message_id: str) -> dict[str, Any]:
    """Return the ledger row of this id. Raises `OneslotError` if there is none."""
    ledger = target.outputs.ledger_table_name
    row = tables.read_row(target.dynamodb, ledger, {"message_id": message_id}, LEDGER_ATTRIBUTES)
    if row is None:
        raise RowNotFound(
            f"The ledger of {target.stack_name} has no row {message_id}: the request never came, was quarantined, or its row "
            f"expired. See `{target.command(f'inspect {message_id}')}`."
        )
    return row


def advice(target: Target, row: Mapping[str, Any], now_ms: int) -> str:
    """Return what the row's standing means, and what the operator can do."""
    match standing(row, now_ms):
        case Standing.MALFORMED:
            return " ".join(format_malformed(malformed_ledger_row(row), target.command))
        case Standing.COMPLETE if waiting := row.get(UNSENT):
            return (
                f"Complete: {outcome_of(row)}. Every copy gets this answer. {waiting} of its messages are not "
                f"marked as sent. If no relay sends them soon, `{target.command('relay --once')}` does."
            )
        case Standing.COMPLETE:
            return f"Complete: {outcome_of(row)}. Every copy gets this answer, so there is nothing to repair."
        case Standing.LEASED:
            unlock_it = target.command(f"{UNLOCK} {row['message_id']}")
            return (
                f"A consumer holds its lease for {(row['lease_until'] - now_ms) / 1000:.0f} s more. Wait until it ends, or end "
                f"it now with `{unlock_it}` if that consumer is dead."
            )
        case Standing.RELEASED if dropped_at(changes(target, row["message_id"])) > row["updated"]:
            return DROPPED
        case state:
            show_it = target.command(f"inspect {row['message_id']}")
            return (
                f"Begun and not finished. Its lease {'was released' if state is Standing.RELEASED else 'has expired'}, so the "
                "next delivery takes it over. See what that would bring, then redrive its dead letter "
                f"(`{show_it}`), or have its producer send it again with the same message_id."
            )


def unlock(target: Target, row: Mapping[str, Any], log: OperatorLog) -> None:
    """End the lease of the claim that the row shows. Raises `OneslotError` if the claim has changed since.

    It is safe while the consumer lives: if another takes over before it commits, the fence refuses its commit.
    """
    log.write(UNLOCK, {"message_id": row["message_id"], "before": dict(row)}, BEGUN)
    surroundings = target.surroundings
    deadline = surroundings.now_ms() + RELEASE_WITHIN_MS
    claim = Claim(row["message_id"], row["claimed_by"], row["consumption_count"], deadline)
    client, table = cast("DynamoDB", target.dynamodb), target.outputs.ledger_table_name
    ledger = DynamoDBLedger(client, table, retention_seconds=None, surroundings=surroundings)
    ended = ledger.release(claim)
    log.write(UNLOCK, {"message_id": row["message_id"]}, DONE if ended else NOT_DONE)
    if not ended:
        raise RowChanged(
            f"Nothing was changed: {row['message_id']} was finished or claimed again since you looked. "
            f"Look again with `{target.command('ledger show ' + row['message_id'])}`."
        )


def forget(target: Target, row: Mapping[str, Any], log: OperatorLog) -> None:
    """Delete the row. Raises `OneslotError` if it has changed since it was read."""
    subject = {"message_id": row["message_id"]}
    values = to_attributes({f":{name}": row[name] for name in COMPARED if name in row})
    given: Any = {"ExpressionAttributeValues": values} if values else {}
    log.write(FORGET, {**subject, "before": dict(row)}, BEGUN)
    try:
        target.dynamodb.delete_item(
            TableName=target.outputs.ledger_table_name,
            Key=to_attributes(subject),
            ConditionExpression=" AND ".join(
                f"#{name} = :{name}" if name in row else f"attribute_not_exists(#{name})" for name in COMPARED
            ),
            ExpressionAttributeNames={f"#{name}": name for name in COMPARED},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **given,
        )
    except ClientError as error:
        # After a lost answer boto3 deletes again, and then finds no row.
        changed = error_code(error) == "ConditionalCheckFailedException"
        if not changed or "Item" in error.response:
            log.write(FORGET, subject, NOT_DONE, reason=error_code(error))
            if not changed:
                raise
            raise RowChanged(
                f"Nothing was changed: {row['message_id']} has changed since you looked. "
                f"Look again with `{target.command('ledger show ' + row['message_id'])}`."
            ) from error
    log.write(FORGET, subject, DONE)


def consequences(target: Target, row: Mapping[str, Any]) -> str:
    """Return what deleting this row brings about."""
    if malformed_ledger_row(row):
        return (
            "The row does not show what was done. The next copy of the message is processed as the first: an effect that is "
            "put once is found and gives the same answer, and everything else is decided again."
        )
    if row["status"] != COMPLETE:
        return (
            "The next copy of the message is processed as the first, and its consumption_count starts again at 1. "
            "Nothing was written for the request yet."
        )
    known = target.declaration.outcomes.get(outcome_of(row))
    what = known.forgotten if known and known.forgotten else AGAIN
    if waiting := row.get(UNSENT):
        what = f"{waiting} of its messages may never be sent, because the row alone holds them. {what}"
    return (
        f"{what} `{target.command('check')}` and the audit report the missing row (I5r, I6) until a copy comes, and then its "
        "consumption_count, which starts again at 1 (I10)."
    )
