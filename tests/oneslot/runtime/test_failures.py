"""What a log says of an error and never quotes, and the codes of SQS's errors, as botocore's own parser gives them."""

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

from oneslot.runtime.attempt import attempt
from oneslot.runtime.effects import Effects, InvalidContent, InvalidEffects, Put, Unprocessable
from oneslot.runtime.failures import lacks_credentials, name_of, own_text, place_of
from oneslot.runtime.handlers import LockLost
from oneslot.runtime.sqs.producer import Accepted, NotAccepted, Outgoing, Producer, Refused
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import NHS_NUMBER, Clock, surroundings


def raised(body: Any) -> Exception:
    """Decide a message with this body, and return what is raised."""
    ledger = MemoryLedger()

    def decide(message: JsonMessage) -> Effects:
        number = message.body["number"]
        price = json.loads(message.body["price"])
        return Effects({}, (Put("orders", {"id": "m", "price": price, "number": int(number)}, key="id"),))

    with pytest.raises(Exception) as error:  # noqa: PT011 - the parameters say which
        attempt(ledger, JsonMessage("m", "h", body), decide, ledger.surroundings.now_ms() + 30_000)
    return error.value


FIRST = raised.__code__.co_firstlineno + 5


@pytest.mark.parametrize(
    ("body", "line", "name"),
    [
        ({}, FIRST, "KeyError"),
        ({"number": NHS_NUMBER, "price": "{"}, FIRST + 1, "JSONDecodeError"),  # which json raises, deeper
        ({"number": f"patient {NHS_NUMBER}", "price": "1"}, FIRST + 2, "ValueError"),
    ],
)
def test_place_is_the_line_of_the_decision_when_it_fails_there_or_deeper(body: Any, line: int, name: str) -> None:
    error = raised(body)
    assert (name_of(error), place_of(error), own_text(error)) == (name, f"{__file__}:{line}", None)


def test_place_is_the_call_when_no_line_of_the_consumers_failed() -> None:
    library = {"__name__": "botocore.client"}
    exec("def call(error): raise error", library)  # noqa: S102 - a frame that is a library's
    with pytest.raises(ClientError) as error:
        library["call"](ClientError({"Error": {"Code": "Throttled"}}, "TransactWriteItems"))  # type: ignore[operator]
    of_this_test = error.value.__traceback__
    assert of_this_test is not None
    assert place_of(error.value.with_traceback(of_this_test.tb_next)) == "TransactWriteItems"


class Own(InvalidEffects):
    """A class of the consumer's, whose text is the consumer's."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LockLost("raise it"), "raise it"),
        (LockLost(), None),
        (Own(NHS_NUMBER), None),
        (Unprocessable("bad", NHS_NUMBER), None),
        (InvalidContent("in the dead letter"), None),
        (ValueError(NHS_NUMBER), None),
        (ClientError({"Error": {"Code": "Throttled", "Message": NHS_NUMBER}}, "GetItem"), None),
    ],
)
def test_text_is_withheld_when_it_is_not_oneslots_own(error: Exception, text: str | None) -> None:
    assert own_text(error) == text
    assert place_of(error) is None


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
