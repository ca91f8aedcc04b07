"""DynamoDB's calls that the runtime makes, and the shapes of its errors.

Importing it needs no boto3, so that a memory ledger runs on Python alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from oneslot.runtime.values import from_attributes

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
    if code := error_code(error):
        return code in TRANSIENT_ERRORS
    botocore = sys.modules.get("botocore.exceptions")  # without it, no call has left this process
    return botocore is not None and isinstance(error, botocore.ConnectionError | botocore.HTTPClientError)


def error_code(error: BaseException) -> str:
    """Return the service's error code, e.g. `ConditionalCheckFailedException`; empty for an error of another kind."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def found_item(error: BaseException) -> dict[str, Any]:
    """Return the item that made a condition fail (`ALL_OLD`); empty if none exists."""
    return from_attributes(_response(error).get("Item", {}))


def cancellation_reasons(error: BaseException) -> Sequence[Mapping[str, Any]]:
    """Return one reason for each element of `TransactItems`, in order; `Code` is the text `None` where it was not refused."""
    return cast("Sequence[Mapping[str, Any]]", _response(error).get("CancellationReasons", ()))


def refusal(reason: Mapping[str, Any]) -> str:
    """Return a reason's code and text, which names attributes and types. One that quotes a value is left out."""
    text = str(reason.get("Message") or "")
    code = str(reason.get("Code", ""))
    return f"({code}: {text})" if text and "numeric value" not in text else f"({code})"


def refusal_of(error: BaseException) -> str:
    """Return the same of an error's answer."""
    return refusal(_response(error).get("Error", {}))


def _response(error: BaseException) -> Mapping[str, Any]:
    """Return the answer that boto3's client puts into its errors. Read so, no class of boto3's is needed."""
    response = getattr(error, "response", None)
    return response if isinstance(response, Mapping) else {}
