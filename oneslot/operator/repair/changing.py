"""Change one row by hand, on condition that it is as the operator saw it, with its two lines in the operator log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from oneslot.operator.evidence.operator_log import BEGUN, DONE, NOT_DONE, OperatorLog
from oneslot.runtime.stores.expressions import error_code

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

Attributes = Mapping[str, Any]
"""A row, or a part of it, as DynamoDB's typed attribute values."""

CHANGED = "ConditionalCheckFailedException"


def change_row(
    client: DynamoDBClient,
    log: OperatorLog,
    action: str,
    subject: Mapping[str, Any],
    *,
    table: str,
    key: Attributes,
    seen: Attributes,
    compared: Iterable[str],
    becomes: Attributes | None,
    before: Mapping[str, Any] | None,
) -> bool:
    """Put `becomes` in the row's place, or delete the row if that is None. Return False if the row has changed since.

    Args:
        subject: names the row in the operator log.
        table: the table's name in DynamoDB.
        seen: the row as the operator saw it; empty if there was none.
        compared: the attributes that must be as they were seen: equal, or still missing.
        before: the row as the operator log keeps it, so that it can be put back; None if there was none.
    """
    log.write(action, {**subject, "before": before}, BEGUN)
    condition = _as_seen(seen, compared)
    try:
        if becomes is None:
            client.delete_item(TableName=table, Key=dict(key), **condition)
        else:
            client.put_item(TableName=table, Item=dict(becomes), **condition)
    except ClientError as error:
        # After a lost answer boto3 sends the write again, which then finds what the first one did.
        changed = error_code(error) == CHANGED
        if not changed or error.response.get("Item") != becomes:
            log.write(action, subject, NOT_DONE, reason=error_code(error))
            if changed:
                return False
            raise
    log.write(action, subject, DONE)
    return True


def _as_seen(seen: Attributes, compared: Iterable[str]) -> Any:
    """Return the condition that these attributes are as they were seen. Placeholders take names of any characters."""
    names = {f"#n{number}": name for number, name in enumerate(sorted(set(compared)))}
    values = {f":{short[1:]}": seen[name] for short, name in names.items() if name in seen}
    conditions = [
        f"{short} = :{short[1:]}" if name in seen else f"attribute_not_exists({short})" for short, name in names.items()
    ]
    return {
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **({"ExpressionAttributeValues": values} if values else {}),
    }
