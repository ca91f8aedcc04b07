"""The stand-ins of services other than DynamoDB answer as moto does, and keep the same objects; else AWS's pages decide."""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from oneslot.explorer.handlers.aws import AccountServices, call_name
from oneslot.explorer.handlers.effects import effects_of
from oneslot.explorer.world import ApiCall, World, from_text

REGION, ACCOUNT = "eu-west-2", "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"
QUEUE = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/orders"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:orders"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:ship"
VALUES = {"parameters": {"/app/table": "orders", "/app/deep/one": "1"}, "secrets": {"key": "k-1"}}
MINUTE = 60 * 1000
SERVICES = (
    *("sqs", "sns", "events", "ses", "sesv2", "firehose", "lambda", "iam", "stepfunctions", "s3", "ssm"),
    "secretsmanager",
)
Parameters = Mapping[str, Any]
_runs = count()


class Ours:
    """The stand-ins, with nothing in them."""

    def __init__(self) -> None:
        self.world, self.now, self.services = World(""), 1_795_000_000_000, AccountServices({}, values=VALUES)

    def __call__(self, service: str, operation: str, parameters: Parameters) -> Any:
        """Return the answer, or the code of an error and its HTTP status."""
        call = ApiCall.of(call_name(service, operation), parameters)
        self.world, observation = self.services(self.world, call, self.now)
        seen = from_text(observation)
        return _refusal(seen["error"]) if "error" in seen else seen["answer"]


class Moto:
    """boto3's clients on moto, with the resources that the calls need."""

    def __init__(self) -> None:
        session: Any = boto3.Session("x", "x", region_name=REGION)
        self._clients = {service: session.client(service) for service in SERVICES}
        for service, operation, parameters in resources():
            getattr(self._clients[service], operation)(**parameters)

    def __call__(self, service: str, operation: str, parameters: Parameters) -> Any:
        """Return the answer, or the code of an error and its HTTP status."""
        try:
            answer = getattr(self._clients[service], operation)(**parameters)
        except ClientError as error:
            return _refusal(error.response)
        return {name: one.read() if hasattr(one, "read") else one for name, one in answer.items()}


def resources() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the calls that make what the calls of the tests need."""
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    yield from (("sqs", "create_queue", {"QueueName": "orders"}), ("sns", "create_topic", {"Name": "orders"}))
    yield "sqs", "create_queue", {"QueueName": "orders.fifo", "Attributes": fifo}
    yield "sns", "create_topic", {"Name": "orders.fifo", "Attributes": {"FifoTopic": "true"}}
    for name, value in VALUES["parameters"].items():
        yield "ssm", "put_parameter", {"Name": name, "Value": value, "Type": "String"}
    yield "secretsmanager", "create_secret", {"Name": "key", "SecretString": "k-1"}
    states = {"StartAt": "a", "States": {"a": {"Type": "Wait", "Seconds": 3600, "End": True}}}
    machine = {"name": "ship", "definition": json.dumps(states), "roleArn": ROLE}
    yield "stepfunctions", "create_state_machine", machine
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = {"RoleName": "any", "AssumeRolePolicyDocument": json.dumps({"Version": "2012-10-17", "Statement": [trust]})}
    yield "iam", "create_role", role
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("app.py", "def handler(event, context): pass")
    function = {"FunctionName": "ship", "Runtime": "python3.12", "Role": ROLE, "Handler": "app.handler"}
    yield "lambda", "create_function", {**function, "Code": {"ZipFile": code.getvalue()}}
    yield "ses", "verify_email_identity", {"EmailAddress": "shop@example.com"}
    mail = {"TemplateName": "paid", "SubjectPart": "paid", "TextPart": "o-1", "HtmlPart": "o-1"}
    yield "ses", "create_template", {"Template": mail}
    yield "sesv2", "create_email_identity", {"EmailIdentity": "shop@example.com"}
    yield "s3", "create_bucket", _bucket("records")
    target = {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::records"}
    yield "firehose", "create_delivery_stream", {"DeliveryStreamName": "paid", "S3DestinationConfiguration": target}


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with mock_aws(config={"lambda": {"use_docker": False}, "iam": {"load_aws_managed_policies": False}}):
        yield Moto()


def _bucket(name: str) -> dict[str, Any]:
    return {"Bucket": name, "CreateBucketConfiguration": {"LocationConstraint": REGION}}


def _refusal(error: Mapping[str, Any]) -> str:
    return f"{error['Error']['Code']} {error.get('ResponseMetadata', {}).get('HTTPStatusCode', 400)}"


def assert_agrees(ours: Any, theirs: Any, *, texts: bool, at: str = "") -> None:
    """Assert that their answer has all that ours has. `texts`: also with equal texts, which elsewhere are generated."""
    match ours:
        case dict():
            # moto numbers no copy and no topic, and answers an event of Lambda.
            for name in ours.keys() - {"ResponseMetadata", "SequenceNumber", "Payload"}:
                assert name in theirs, f"{at}.{name}"
                assert_agrees(ours[name], theirs[name], texts=texts, at=f"{at}.{name}")
        case list():
            assert len(ours) == len(theirs), at
            for one, other in zip(ours, theirs, strict=True):
                assert_agrees(one, other, texts=texts, at=at)
        case datetime():
            assert isinstance(theirs, datetime), at
        case str() if not texts and " " not in ours:
            assert isinstance(theirs, str), at
        case _:
            assert ours == theirs, f"{at}: {ours}, and moto: {theirs}"


OBJECTS, CONTENTS = ["a/1", "a/2", "b/ü"], [b"", b"1", b"22"]
objects = st.sampled_from(OBJECTS)


def called(
    service: str, operation: str, optional: Mapping[str, Any] | None = None, **needed: Any
) -> st.SearchStrategy[tuple[str, str, dict[str, Any]]]:
    """Make calls with these parameters, each a strategy."""
    return st.tuples(st.just(service), st.just(operation), st.fixed_dictionaries(needed, optional=optional or {}))


def entries(most: int, **fields: Any) -> st.SearchStrategy[Any]:
    """Make the entries of a batch."""
    return st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=most)


kept = {"ContentType": st.just("text/plain"), "Metadata": st.just({"order": "o-1"})}
contents = st.sampled_from(CONTENTS)
prefixes = {"Prefix": st.sampled_from(["a/", "b", "c"]), "MaxKeys": st.integers(1, 3)}
of_s3 = st.one_of(
    *[called("s3", "put_object", kept, Key=objects, Body=contents)] * 2,
    called("s3", "put_object", Key=objects, Body=contents, IfNoneMatch=st.just("*")),
    called("s3", "get_object", Key=objects),
    called("s3", "head_object", Key=objects),
    called("s3", "delete_object", Key=objects),
    called("s3", "delete_objects", Delete=st.just({"Objects": [{"Key": one} for one in OBJECTS[:2]]})),
    called("s3", "copy_object", Key=objects, CopySource=objects),
    called("s3", "list_objects_v2", prefixes),
)


@given(st.lists(of_s3, min_size=4, max_size=12))
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_objects_are_as_in_moto(moto: Moto, calls: list[tuple[str, str, dict[str, Any]]]) -> None:
    ours, bucket = Ours(), f"bills-{next(_runs)}"
    moto("s3", "create_bucket", _bucket(bucket))
    for _, operation, parameters in [*calls, ("s3", "list_objects_v2", {})]:
        asked = {"Bucket": bucket, **parameters}
        if "CopySource" in asked:
            asked["CopySource"] = f"{bucket}/{asked['CopySource']}"
        assert_agrees(ours("s3", operation, asked), moto("s3", operation, asked), texts=True, at=operation)


bodies, ids = st.sampled_from(["m", "n"]), st.sampled_from(["1", "2", "a b"])
executions = {"name": st.sampled_from(["o-1", "o-2", "a b"]), "input": st.sampled_from(["{}", "[1]", "no JSON"])}
event = {
    "Source": st.just("shop"),
    "DetailType": st.just("paid"),
    "Detail": st.sampled_from(['{"order": "o-1"}', "no JSON"]),
}
token = {"MessageGroupId": st.just("g"), "MessageDeduplicationId": ids}
published = entries(12, Id=st.sampled_from(["1", "2"]), Message=bodies)  # moto takes any id, and SNS does not
sends = st.one_of(
    called("sqs", "send_message", QueueUrl=st.just(QUEUE), MessageBody=bodies),
    called("sqs", "send_message", token, QueueUrl=st.just(f"{QUEUE}.fifo"), MessageBody=bodies),
    called("sqs", "send_message_batch", QueueUrl=st.just(QUEUE), Entries=entries(3, Id=ids, MessageBody=bodies)),
    called("sns", "publish", TopicArn=st.just(TOPIC), Message=st.sampled_from(["m", "m" * 262_145])),
    called("sns", "publish_batch", TopicArn=st.just(TOPIC), PublishBatchRequestEntries=published),
    called("events", "put_events", Entries=entries(11, **event)),
)


@given(st.lists(sends, min_size=3, max_size=10))
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_message_is_taken_or_refused_as_by_moto(moto: Moto, calls: list[Any]) -> None:
    ours = Ours()
    for service, operation, parameters in calls:
        answers = (ours(service, operation, parameters), moto(service, operation, parameters))
        assert_agrees(*answers, texts=isinstance(answers[0], str), at=f"{operation} {parameters}"[:300])


@given(st.lists(st.fixed_dictionaries({}, optional=executions), min_size=3, max_size=8))
@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_execution_starts_as_in_moto(moto: Moto, starts: list[dict[str, str]]) -> None:
    ours, run, known = Ours(), next(_runs), dict[str, str]()
    for start in starts:
        asked = {"stateMachineArn": MACHINE, **start}
        if len(start.get("name", "")) == 3:
            asked["name"] = f"{start['name']}-{run}"
        started, theirs = (service("stepfunctions", "start_execution", asked) for service in (ours, moto))
        assert_agrees(started, theirs, texts=isinstance(started, str))
        if isinstance(started, dict):
            arn = started["executionArn"]
            assert known.setdefault(arn, theirs["executionArn"]) == theirs["executionArn"]
            assert ours("stepfunctions", "describe_execution", {"executionArn": arn})["status"] == "RUNNING"
    assert len(set(known.values())) == len(known)


TO, MAIL = {"ToAddresses": ["a@example.com"]}, {"Subject": {"Data": "paid"}, "Body": {"Text": {"Data": "o-1"}}}
FROM = {"Source": "shop@example.com", "Destination": TO}
CALLS: dict[str, dict[str, Any]] = {
    "ses.send_email": {**FROM, "Message": MAIL},
    "ses.send_raw_email": {"Destinations": TO["ToAddresses"], "RawMessage": {"Data": b"From: shop@example.com\n\no-1"}},
    "ses.send_templated_email": {**FROM, "Template": "paid", "TemplateData": "{}"},
    "sesv2.send_email": {"FromEmailAddress": FROM["Source"], "Destination": TO, "Content": {"Simple": MAIL}},
    "firehose.put_record": {"DeliveryStreamName": "paid", "Record": {"Data": b"o-1"}},
    "firehose.put_record_batch": {"DeliveryStreamName": "paid", "Records": [{"Data": b"o-1"}]},
    "lambda.invoke": {"FunctionName": "ship", "InvocationType": "Event", "Payload": b"{}"},
    "ssm.get_parameter": {"Name": "/app/table"},
    "ssm.get_parameter of none": {"Name": "/app/none"},
    "ssm.get_parameters": {"Names": ["/app/table", "/none"]},
    "ssm.get_parameters_by_path": {"Path": "/app"},
    "ssm.get_parameters_by_path of all": {"Path": "/app", "Recursive": True},
    "secretsmanager.get_secret_value": {"SecretId": "key"},
}


@pytest.mark.parametrize("call", CALLS)
def test_call_is_answered_as_by_moto(moto: Moto, call: str) -> None:
    service, _, operation = call.partition(" ")[0].partition(".")
    ours = Ours()

    answers = ours(service, operation, CALLS[call]), moto(service, operation, CALLS[call])

    assert_agrees(*answers, texts=isinstance(answers[0], str))
    assert len(effects_of(ours.world)) == (not operation.startswith("get_"))


FIFO_TOPIC = {"TopicArn": f"{TOPIC}.fifo", "Message": "m"}
WHERE_MOTO_DIFFERS: dict[str, tuple[Parameters, Any]] = {
    "sqs.send_message": ({"QueueUrl": QUEUE, "MessageBody": "\x00"}, "InvalidMessageContents 400"),
    "sns.publish of nothing": ({"TopicArn": TOPIC, "Message": ""}, "InvalidParameter 400"),
    "sns.publish without a group": (FIFO_TOPIC, "InvalidParameter 400"),
    "secretsmanager.get_secret_value": ({"SecretId": "none"}, "ResourceNotFoundException 400"),
}
"""A call, and how AWS's documentation says that it is refused."""


@pytest.mark.parametrize("call", WHERE_MOTO_DIFFERS)
def test_call_is_refused_as_documented_when_moto_differs(moto: Moto, call: str) -> None:
    service, _, operation = call.partition(" ")[0].partition(".")
    parameters, expected = WHERE_MOTO_DIFFERS[call]

    assert Ours()(service, operation, parameters) == expected
    assert moto(service, operation, parameters) != expected


ENTRY = {"MessageBody": "m", "MessageGroupId": "g"}
PUBLISHED = {**FIFO_TOPIC, "MessageGroupId": "g"}


@pytest.mark.parametrize("token", [{}, {"MessageDeduplicationId": "d"}], ids=["content", "id"])
@pytest.mark.parametrize(
    ("service", "operation", "parameters"),
    [("sqs", "send_message", {"QueueUrl": f"{QUEUE}.fifo", **ENTRY}), ("sns", "publish", PUBLISHED)],
    ids=["queue", "topic"],
)
def test_fifo_takes_a_message_once_in_five_minutes(
    service: str, operation: str, parameters: Parameters, token: dict[str, str]
) -> None:
    ours, answers = Ours(), list[Any]()

    for later, sent in ((0, 1), (5 * MINUTE - 1, 1), (1, 2)):
        ours.now += later
        answers.append(ours(service, operation, {**parameters, **token}))
        assert len(effects_of(ours.world)) == sent

    assert answers[0]["MessageId"] == answers[1]["MessageId"]
    assert all("SequenceNumber" in answer for answer in answers)
