"""The codes of SQS's errors, as botocore's own parser gives them for an answer of SQS."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from oneslot.runtime.failures import lacks_credentials
from oneslot.runtime.sqs.producer import Accepted, NotAccepted, Outgoing, Producer, Refused
from tests.kits.consumer import Clock, surroundings

URL = "https://sqs.eu-west-2.amazonaws.com/111122223333/requests"
ACCEPTED = {
    "Successful": [{"Id": "0", "MessageId": "sqs-1", "MD5OfMessageBody": "", "SequenceNumber": "1"}],
    "Failed": [],
}


class Raw(BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


class Answering:
    """A real client whose requests never leave it: each call takes the next of these answers."""

    def __init__(self, *answers: tuple[int, dict[str, str], dict[str, Any]]) -> None:
        self.calls = 0
        self._answers = answers
        self.client = boto3.client(
            "sqs",
            "eu-west-2",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            config=Config(retries={"total_max_attempts": 1}, response_checksum_validation="when_required"),
        )
        self.client.meta.events.register("before-send.sqs", self._answer)

    def _answer(self, request: Any, **_: Any) -> Any:
        status, headers, body = self._answers[min(self.calls, len(self._answers) - 1)]
        self.calls += 1
        return AWSResponse(request.url, status, HTTPHeaders.from_dict(headers), Raw(json.dumps(body).encode()))


def refusal(shape: str, query_code: str | None) -> tuple[int, dict[str, str], dict[str, Any]]:
    """SQS's answer: its JSON names the shape, and a header the query protocol's code. A stand-in may lack the header."""
    headers = {} if query_code is None else {"x-amzn-query-error": f"{query_code};Sender"}
    return 400, headers, {"__type": f"com.amazonaws.sqs#{shape}", "message": "no"}


def send(answering: Answering, seconds: float = 5) -> list[Accepted | Refused]:
    producer = Producer(answering.client, URL, surroundings(Clock()))
    return producer.send([Outgoing("m", "body")], within_seconds=seconds)


FINAL = [
    ("KmsAccessDenied", "KMS.AccessDeniedException"),
    ("KmsDisabled", "KMS.DisabledException"),
    ("KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException"),
    ("KmsInvalidState", "KMS.InvalidStateException"),
    ("KmsNotFound", "KMS.NotFoundException"),
    ("KmsOptInRequired", "KMS.OptInRequired"),
    ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
    ("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"),
    ("InvalidAddress", "InvalidAddress"),
    ("InvalidSecurity", "InvalidSecurity"),
    ("ExpiredTokenException", None),
    ("ExpiredToken", None),
    ("InvalidSignatureException", None),
    ("AccessDeniedException", "AccessDenied"),
]
PASSING = [
    ("KmsThrottled", "KMS.ThrottlingException"),
    ("RequestThrottled", "RequestThrottled"),
    ("InternalFailure", None),
]


@pytest.mark.parametrize(("shape", "query_code"), [*FINAL, *((shape, None) for shape, _ in FINAL)])
def test_call_is_not_repeated_when_no_attempt_can_succeed(shape: str, query_code: str | None) -> None:
    answering = Answering(refusal(shape, query_code))
    with pytest.raises(ClientError) as raised:
        send(answering)
    assert (answering.calls, raised.value.response["Error"]["Code"]) == (1, query_code or shape)


@pytest.mark.parametrize(("shape", "query_code"), [*PASSING, *((shape, None) for shape, _ in PASSING)])
def test_call_is_repeated_when_the_next_attempt_may_succeed(shape: str, query_code: str | None) -> None:
    answering = Answering(refusal(shape, query_code), (200, {}, ACCEPTED))
    assert [type(each) for each in send(answering)] == [Accepted]
    assert answering.calls == 2


WITHOUT_CREDENTIALS = [
    NoCredentialsError(),
    PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
    UnauthorizedSSOTokenError(),
    SSOTokenLoadError(error_msg="no token"),
    TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
    NoAuthTokenError(),
]


@pytest.mark.parametrize("error", WITHOUT_CREDENTIALS, ids=lambda error: type(error).__name__)
def test_call_is_not_repeated_when_the_sign_in_is_missing_or_over(error: BotoCoreError) -> None:
    answering = Answering()

    def refuse(**_: Any) -> None:
        raise error

    answering.client.meta.events.register("before-sign.sqs", refuse)
    with pytest.raises(type(error)):
        send(answering)
    assert lacks_credentials(error)


def test_call_is_repeated_when_a_container_has_no_credentials_yet() -> None:
    answering = Answering()

    def refuse(**_: Any) -> None:
        raise CredentialRetrievalError(provider="container-role", error_msg="timed out")

    answering.client.meta.events.register("before-sign.sqs", refuse)
    with pytest.raises(NotAccepted):
        send(answering)
