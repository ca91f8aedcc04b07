"""DynamoDB's calls that the runtime makes, and the shapes of its errors.

Importing it needs no boto3, so that a memory ledger runs on Python alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from oneslot.runtime.values import from_attributes

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
