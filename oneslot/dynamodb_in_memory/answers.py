"""Answers and errors in the shapes of boto3's client."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from oneslot.dynamodb_in_memory.expressions.paths import Path, project
from oneslot.dynamodb_in_memory.expressions.values import TypedItem

_MEASURES = {"ReturnConsumedCapacity", "ReturnItemCollectionMetrics"}
"""Parameters that ask for measures beside the answer. The stand-in measures nothing, and its answer has none."""
_LEGACY = {
    "AttributesToGet": "Use ProjectionExpression.",
    "AttributeUpdates": "Use UpdateExpression.",
    "ConditionalOperator": "Use AND and OR in an expression.",
    "Expected": "Use ConditionExpression.",
    "KeyConditions": "Use KeyConditionExpression.",
    "QueryFilter": "Use FilterExpression.",
    "ScanFilter": "Use FilterExpression.",
    "Segment": "Scan the table in one segment.",
    "TotalSegments": "Scan the table in one segment.",
}
"""What to use instead of a parameter that the stand-in refuses. Most of them are legacy (developer guide)."""


class UnsupportedRequest(AssertionError):
    """A request that the stand-in does not know."""


class ConditionFailed(Exception):
    """A condition that does not hold, with the key and the item (empty: none) that it was checked on."""

    def __init__(self, key: str, item: TypedItem) -> None:
        super().__init__(key)
        self.key = key
        self.item = item

    def found(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the item as the request wants it in the refusal."""
        wanted = request.get("ReturnValuesOnConditionCheckFailure", "NONE")
        if wanted not in ("NONE", "ALL_OLD"):
            raise UnsupportedRequest(f"ReturnValuesOnConditionCheckFailure {wanted}")
        return {"Item": dict(self.item)} if wanted == "ALL_OLD" and self.item else {}


class RefusedRequest(Exception):
    """An error of the service where boto3 is not installed, which has a class of its own. It has the same `response`."""

    def __init__(self, response: Mapping[str, Any], operation_name: str) -> None:
        super().__init__(f"{response['Error']['Code']} in {operation_name}: {response['Error']['Message']}")
        self.response, self.operation_name = response, operation_name


def cancelled(reasons: Iterable[Mapping[str, Any]]) -> Exception:
    """Return the error of a transaction that is cancelled for these reasons, one for each item."""
    reasons = list(reasons)
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return client_error("TransactWriteItems", "TransactionCanceledException", message, CancellationReasons=reasons)


def returned(wanted: str, before: TypedItem, after: TypedItem, written: Sequence[Path]) -> Mapping[str, Any]:
    """Return the attributes of a write's answer, by `ReturnValues`; `written` are the paths of an update."""
    match wanted:
        case "NONE":
            found: TypedItem = {}
        case "ALL_NEW":
            found = after
        case "ALL_OLD":
            found = before
        case "UPDATED_NEW":
            found = project(after, written)
        case "UPDATED_OLD":
            found = project(before, written)
        case _:
            raise UnsupportedRequest(f"ReturnValues {wanted}")
    return {"Attributes": dict(found)} if found else {}


def answer(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a successful answer."""
    return {**body, "ResponseMetadata": {"HTTPStatusCode": 200}}


def refuse_unknown(name: str, request: Mapping[str, Any], known: str) -> None:
    """Raise `UnsupportedRequest` for parameters of an operation other than the known ones, separated by spaces."""
    for parameter in sorted(set(request) - set(known.split()) - _MEASURES):
        remedy = _LEGACY.get(parameter, "Leave it out, or give the answer of the call in `answers`.")
        raise UnsupportedRequest(f"The explorer does not support {parameter} in {name}. {remedy}")


def client_error(name: str, code: str, message: str, **more: Any) -> Exception:
    """Return an error of the operation with this name, as boto3's client raises it."""
    return _error_class()({"Error": {"Code": code, "Message": message}, **more}, name)


@cache
def _error_class() -> Callable[[dict[str, Any], str], Exception]:
    try:
        from botocore.exceptions import ClientError
    except ModuleNotFoundError:
        return RefusedRequest
    return ClientError  # type: ignore[return-value]


def refuse(name: str, code: str, message: str) -> NoReturn:
    """Raise an error of the operation with this name."""
    raise client_error(name, code, message)
