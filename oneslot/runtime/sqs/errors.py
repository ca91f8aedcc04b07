"""The codes of SQS's errors. botocore gives the query protocol's code where SQS sends one, and the shape's name elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

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
    return frozenset(code for shape in shapes for code in _forms(shape))


def _forms(shape: str) -> Iterator[str]:
    yield shape
    yield _QUERY_CODES.get(shape, _SERVICE + shape)


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
