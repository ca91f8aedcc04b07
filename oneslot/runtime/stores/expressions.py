"""`Effects` as DynamoDB's calls: the expressions, the attribute values, and the shapes of its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, cast

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's, wider

from oneslot.runtime.effects import Item, Put, Update, Write

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

CONDITION_FAILED = "ConditionalCheckFailed"

# The SDK does not retry the first two, and the others only a few times.
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
    """The calls of a DynamoDB client that the runtime makes. As properties, they fit boto3's client and its typed stubs."""

    @property
    def update_item(self) -> Callable[..., Any]:
        """Change one item under a condition."""

    @property
    def transact_write_items(self) -> Callable[..., Any]:
        """Change several items under conditions, all or none."""

    @property
    def get_item(self) -> Callable[..., Any]:
        """Read one item."""

    @property
    def batch_get_item(self) -> Callable[..., Any]:
        """Read up to 100 items by their keys."""

    @property
    def query(self) -> Callable[..., Any]:
        """Read the items of one partition."""


def to_attributes(item: Item) -> dict[str, Any]:
    """Return plain values as DynamoDB's typed attribute values."""
    return {name: _attribute(value) for name, value in item.items()}


def _attribute(value: Any) -> Any:
    # Most values are text, and boto3's serializer tries every other type first.
    return {"S": value} if type(value) is str else _serialize(value)


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return DynamoDB's typed attribute values as plain values, whole numbers as `int`."""
    return {name: _plain(_deserialize(value)) for name, value in attributes.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value


def transact_items(writes: Iterable[Write], tables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the writes as `TransactItems`; `tables` maps logical names to real ones."""
    return [transact_item(write, tables) for write in writes]


def transact_item(write: Write, tables: Mapping[str, str]) -> dict[str, Any]:
    """Return a write as one element of `TransactItems`.

    A refusal returns the item found (`ALL_OLD`), so that no further read is needed to explain it.
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

    # Numbered, because an attribute's name may hold characters that a placeholder must not.
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


def is_transient(error: Exception) -> bool:
    """Return whether a retry in place may succeed: the service refused for now, or its answer was lost."""
    if isinstance(error, ClientError):
        return error_code(error) in TRANSIENT_ERRORS
    return isinstance(error, ConnectionError | HTTPClientError)


def error_code(error: ClientError) -> str:
    """Return the service's error code, e.g. `ConditionalCheckFailedException`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def found_item(error: ClientError) -> dict[str, Any]:
    """Return the item that made a condition fail (`ALL_OLD`); empty if none exists."""
    return from_attributes(cast("dict[str, Any]", error.response.get("Item", {})))


def cancellation_reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """Return one reason for each element of `TransactItems`, in order; `Code` is the text `None` where it was not refused."""
    return cast("Sequence[Mapping[str, Any]]", error.response.get("CancellationReasons", ()))
