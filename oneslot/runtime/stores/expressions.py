"""DynamoDB's side of `Effects`: the calls that are used, the expressions, and the shapes of its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, cast

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from oneslot.runtime.effects import Item, Put, Update, Write

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

CONDITION_FAILED = "ConditionalCheckFailed"

# The SDK retries none of the first two, and the others only a few times.
TRANSIENT_ERRORS = frozenset(
    {
        "TransactionConflictException",
        "TransactionConflict",
        "TransactionInProgressException",
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "RequestLimitExceeded",
        "InternalServerError",
        "ServiceUnavailable",
    }
)


class DynamoDB(Protocol):
    """The few calls of a DynamoDB client that the protocol and its readers use."""

    def update_item(self, **request: Any) -> Mapping[str, Any]:
        """Change one item under a condition."""

    def transact_write_items(self, **request: Any) -> Mapping[str, Any]:
        """Change several items under conditions, all or none."""

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read one item."""

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read up to 100 items by their keys."""

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Read the items of one partition."""


def to_attributes(item: Item) -> dict[str, Any]:
    """Plain values → DynamoDB's typed attribute values."""
    return {name: _attribute(value) for name, value in item.items()}


def _attribute(value: Any) -> Any:
    # Most values are text, and boto3 asks of it whether it is anything else first.
    return {"S": value} if type(value) is str else _serialize(value)


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """DynamoDB's typed attribute values → plain values, whole numbers as `int`."""
    return {name: _plain(_deserialize(value)) for name, value in attributes.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value


def transact_item(write: Write, tables: Mapping[str, str]) -> dict[str, Any]:
    """One `Write` → one element of `TransactItems`; `tables` maps logical names to real ones.

    A refusal brings the item that was found (`ALL_OLD`), so that it can be explained without another read.
    """
    table = {"TableName": tables[write.table], "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    if isinstance(write, Put):
        return {
            "Put": {
                **table,
                "Item": to_attributes(write.item),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": write.key},
            }
        }
    return {"Update": {**table, "Key": to_attributes(write.key), **_update_expressions(write)}}


def _update_expressions(update: Update) -> dict[str, Any]:
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    # Numbered: an attribute's own name may have characters that a placeholder may not have.
    def name(attribute: str) -> str:
        return names.setdefault(attribute, f"#n{len(names)}")

    def equals(attribute: str, value: Any) -> str:
        placeholder = f":v{len(values)}"
        values[placeholder] = _attribute(value)
        return f"{name(attribute)} = {placeholder}"

    clauses = []
    if update.set:
        clauses.append("SET " + ", ".join(equals(*pair) for pair in update.set.items()))
    if update.remove:
        clauses.append("REMOVE " + ", ".join(name(attribute) for attribute in update.remove))
    return {
        "UpdateExpression": " ".join(clauses),
        "ConditionExpression": " AND ".join(equals(*pair) for pair in update.expect.items()),
        "ExpressionAttributeNames": {placeholder: attribute for attribute, placeholder in names.items()},
        "ExpressionAttributeValues": values,
    }


def error_code(error: ClientError) -> str:
    """The service's code, e.g. `ConditionalCheckFailedException`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def found_item(error: ClientError) -> dict[str, Any]:
    """The item that made a condition fail (`ALL_OLD`); empty if there was none."""
    return from_attributes(cast("dict[str, Any]", error.response.get("Item", {})))


def cancellation_reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """One reason for each element of `TransactItems`, in its order; `Code` is `None` (the text) where it was not at fault."""
    return cast("Sequence[Mapping[str, Any]]", error.response.get("CancellationReasons", ()))
