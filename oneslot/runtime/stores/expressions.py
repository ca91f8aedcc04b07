"""`Effects` as DynamoDB's calls: the expressions, the attribute values, and the shapes of its errors.

Importing it needs no boto3, so that a memory ledger runs on Python alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from oneslot.runtime.effects import Item, Put, Update, Write
from oneslot.runtime.values import from_attribute, to_attribute

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

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
    """Return plain values as DynamoDB's typed attribute values. Raises `InvalidValue` for what DynamoDB does not hold."""
    return cast("dict[str, Any]", to_attribute(item)["M"])


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return DynamoDB's typed attribute values as plain values: a whole number is an `int`, a fraction a `Decimal`."""
    return cast("dict[str, Any]", from_attribute({"M": attributes}))


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
    change, condition, names, values = _update_expressions(write)
    return {
        "Update": {
            **table,
            "Key": to_attributes(write.key),
            "UpdateExpression": change,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": to_attributes(values),
        }
    }


def expressions_of(update: Update) -> tuple[str, str]:
    """Return the update's two expressions: what it changes, and on what condition."""
    return _update_expressions(update)[:2]


def _update_expressions(update: Update) -> tuple[str, str, dict[str, str], dict[str, Any]]:
    """Return what changes, the condition, the attributes' names, and the values."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    # Numbered, because an attribute's name may hold characters that a placeholder must not.
    def name(attribute: str) -> str:
        return names.setdefault(attribute, f"#n{len(names)}")

    def equals(attribute: str, value: Any) -> str:
        placeholder = f":v{len(values)}"
        values[placeholder] = value
        return f"{name(attribute)} = {placeholder}"

    clauses = []
    if update.set:
        clauses.append("SET " + ", ".join(equals(*pair) for pair in update.set.items()))
    if update.remove:
        clauses.append("REMOVE " + ", ".join(name(attribute) for attribute in update.remove))
    condition = " AND ".join(equals(*pair) for pair in update.expect.items())
    return " ".join(clauses), condition, {placeholder: attribute for attribute, placeholder in names.items()}, values


def is_transient(error: Exception) -> bool:
    """Return whether a retry in place may succeed: the service refused for now, or its answer was lost."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's, wider

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
