"""`Effects` as DynamoDB's calls: the expressions, the attribute values, and the shapes of its errors.

Importing it needs no boto3, so that a memory ledger runs on Python alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow
from typing import TYPE_CHECKING, Any, Protocol, cast

from oneslot.runtime.effects import Item, Put, Update, Write

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

# DynamoDB's numbers: 38 digits, and exponents up to 125. A number that does not fit is refused, never rounded.
_NUMBERS = Context(prec=38, Emin=-128, Emax=126, traps=[Clamped, Overflow, Inexact, Rounded, Underflow])
_SETS: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("NS", (int, Decimal)),
    ("SS", str),
    ("BS", (bytes, bytearray)),
)

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


def _attribute(value: Any) -> dict[str, Any]:
    """Return a value as boto3's TypeSerializer does. Raises TypeError or ArithmeticError for what DynamoDB refuses."""
    kind, content = "", value
    match value:
        case str():  # first, because most values are text
            kind = "S"
        case None:
            kind, content = "NULL", True
        case bool():
            kind = "BOOL"
        case int() | Decimal():
            kind, content = "N", _number(value)
        case bytes() | bytearray():
            kind = "B"
        case Mapping():
            kind, content = "M", to_attributes(value)
        case list() | tuple():
            kind, content = "L", [_attribute(element) for element in value]
        case Set():
            fitting = [kind for kind, types in _SETS if all(isinstance(element, types) for element in value)]
            kind = next(iter(fitting), "")
            content = [_attribute(element)[kind[0]] for element in value] if kind else value
        case _ if isinstance(content := getattr(value, "value", None), bytes | bytearray):
            kind = "B"  # boto3's own type, Binary
    if not kind:
        raise TypeError(f"DynamoDB has no type for a {type(value).__name__}")
    return {kind: content}


def _number(value: int | Decimal) -> str:
    text = str(_NUMBERS.create_decimal(value))
    if not Decimal(text).is_finite():
        raise TypeError("DynamoDB has no infinity and no NaN")
    return text


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return DynamoDB's typed attribute values as plain values, whole numbers as `int`."""
    return {name: _plain(value) for name, value in attributes.items()}


def _plain(attribute: Mapping[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            number = Decimal(value)
            return int(number) if number == number.to_integral_value() else float(number)
        case "M":
            return from_attributes(value)
        case "L":
            return [_plain(element) for element in value]
        case "NS" | "SS" | "BS":
            return {_plain({kind[0]: element}) for element in value}
        case "NULL":
            return None
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
