"""The errors of AWS's services: which of them a retry may cure, and what a log may say of any error.

Importing it needs no boto3, so that a memory ledger runs on Python alone. botocore gives the query protocol's code of an SQS
error where SQS sends one, and the shape's name elsewhere. A log says an error's name, its place, and the text of Oneslot's own
errors. Other texts may quote a value.
"""

import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, cast

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.values import from_attributes

_LIBRARIES = sys.stdlib_module_names | {"aws_lambda_powertools", "boto3", "botocore", "oneslot", "redis", "urllib3"}


def name_of(error: BaseException) -> str:
    """Return an AWS error's code, or the class of any other error."""
    return error_code(error) or type(error).__name__


def place_of(error: BaseException) -> str | None:
    """Return the last file and line of the user's own code, else the call of AWS, else the last line. None without one."""
    last = yours = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        last = f"{frame.f_code.co_filename}:{line}"
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES:
            yours = last
    return yours or (last and getattr(error, "operation_name", last))


def own_text(error: BaseException) -> str | None:
    """Return the text of an error of Oneslot's own, which quotes no value; None for any other, and for one without text.

    The text of `Unprocessable` is the consumer's, and goes with the message to its dead-letter queue.
    """
    own = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return str(error) or None if own and not isinstance(error, Unprocessable) else None


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


_SERVICE = "AWS.SimpleQueueService."

# By the examples in SQS's API reference. The codes of other shapes are their names, behind `_SERVICE` or without it.
_QUERY_CODES = {
    "KmsAccessDenied": "KMS.AccessDeniedException",
    "KmsDisabled": "KMS.DisabledException",
    "KmsInvalidKeyUsage": "KMS.InvalidKeyUsageException",
    "KmsInvalidState": "KMS.InvalidStateException",
    "KmsNotFound": "KMS.NotFoundException",
    "KmsOptInRequired": "KMS.OptInRequired",
    "KmsThrottled": "KMS.ThrottlingException",
    "QueueDoesNotExist": f"{_SERVICE}NonExistentQueue",
}


def codes(*shapes: str) -> frozenset[str]:
    """Return every code that botocore can give for these shapes."""
    return frozenset(code for shape in shapes for code in (shape, _QUERY_CODES.get(shape, _SERVICE + shape)))


NO_QUEUE = codes("QueueDoesNotExist")

THROTTLED = codes("RequestThrottled", "KmsThrottled") | {"ThrottlingException", "Throttling"}
"""The codes of an entry that SQS reports as the sender's fault, and accepts later all the same."""

KEY_REFUSED = codes(
    "KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired"
)
"""The codes of a call that fails because of the key that encrypts the queue."""

SIGNED_OUT = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
"""The codes of a call whose session has ended, of any service."""

BAD_CREDENTIALS = frozenset({"InvalidClientTokenId", "UnrecognizedClientException"})
"""The codes of a call whose key id AWS does not know, of any service."""

HOPELESS = (
    NO_QUEUE
    | KEY_REFUSED
    | SIGNED_OUT
    | BAD_CREDENTIALS
    | codes("InvalidAddress", "InvalidSecurity", "UnsupportedOperation")
    | {
        "AccessDenied",
        "AccessDeniedException",
        "IncompleteSignature",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "OptInRequired",
        "SignatureDoesNotMatch",
    }
)
"""The codes of a call that fails in every attempt. After any other error the next attempt may succeed."""

ONE_MESSAGE = codes("BatchRequestTooLong", "InvalidMessageContents") | {
    "InvalidParameterValue",
    "InvalidParameterValueException",
    "MissingParameter",
    "MissingRequiredParameterException",
}
"""The codes of a call that fails because of one of its messages, which is then found by sending each alone."""

# botocore's classes, by name: 1.35, which is allowed, lacks the last.
_WITHOUT_CREDENTIALS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "NoAuthTokenError",
        "TokenRetrievalError",
        "SSOError",
        "LoginError",
    }
)


def lacks_credentials(error: BaseException) -> bool:
    """Return whether botocore has no valid credentials, or its sign-in has expired: no attempt succeeds without a person.

    Credentials of a container or an instance are not meant: their service may answer next time.
    """
    return not _WITHOUT_CREDENTIALS.isdisjoint(kind.__name__ for kind in type(error).__mro__)
