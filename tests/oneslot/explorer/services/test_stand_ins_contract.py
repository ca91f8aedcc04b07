"""One contract for the stand-ins of other services and moto: answers, errors and what is kept."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from oneslot.explorer.handlers.aws import intercepted
from oneslot.explorer.handlers.effects import effects_of
from oneslot.explorer.handlers.services import AccountServices
from oneslot.explorer.world import ApiCall, World

REGION, ACCOUNT = "eu-west-2", "123456789012"
PORT, MOTO = "port", "moto"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"
VALUES = {"parameters": {"/app/table": "orders", "/app/deep/one": "1"}, "secrets": {"key": "k-1"}}


class Direct:
    """A process whose calls are all performed at once."""

    def __init__(self) -> None:
        self.world, self.now = World(""), 1_795_000_000_000
        self.services = AccountServices({}, values=VALUES)

    def wait(self, request: ApiCall) -> str:
        self.world, observation = self.services(self.world, request, self.now)
        return observation

    def await_reading(self) -> list[bool]:
        return [False]


class Aws:
    """boto3's clients on the stand-ins or on moto, with what the tests need existing in both."""

    topic, fifo = f"arn:aws:sns:{REGION}:{ACCOUNT}:orders", f"arn:aws:sns:{REGION}:{ACCOUNT}:orders.fifo"
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:ship"

    def __init__(self, direct: Direct | None) -> None:
        self.direct = direct
        self._prepared: set[str] = set()

    def __getattr__(self, service: str) -> Any:
        return self.client_of(service)

    def client_of(self, service: str) -> Any:
        """Return a client. In moto, what the tests need of this service exists then."""
        session: Any = boto3.Session("x", "x", region_name=REGION)
        client = session.client(service)
        if self.direct is None and service not in self._prepared:
            self._prepared.add(service)
            if service in PREPARE:
                PREPARE[service](client)
        return client


def _topics(client: Any) -> None:
    client.create_topic(Name="orders")
    client.create_topic(Name="orders.fifo", Attributes={"FifoTopic": "true", "ContentBasedDeduplication": "true"})


def _parameters(client: Any) -> None:
    for name, value in VALUES["parameters"].items():
        client.put_parameter(Name=name, Value=value, Type="String")


def _state_machine(client: Any) -> None:
    definition = json.dumps({"StartAt": "a", "States": {"a": {"Type": "Wait", "Seconds": 3600, "End": True}}})
    client.create_state_machine(name="ship", definition=definition, roleArn=ROLE)


def _function(client: Any) -> None:
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    iam = boto3.client("iam", region_name=REGION)
    iam.create_role(
        RoleName="any", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("app.py", "def handler(event, context): pass")
    settings = {"Runtime": "python3.12", "Role": ROLE, "Handler": "app.handler"}
    client.create_function(FunctionName="ship", Code={"ZipFile": code.getvalue()}, **settings)


def _queues(client: Any) -> None:
    client.create_queue(QueueName="orders")
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    client.create_queue(QueueName="orders.fifo", Attributes=fifo)


def _sender(client: Any) -> None:
    client.verify_email_identity(EmailAddress="shop@example.com")
    template = {"TemplateName": "paid", "SubjectPart": "paid", "TextPart": "o-1", "HtmlPart": "o-1"}
    client.create_template(Template=template)


def _stream(client: Any) -> None:
    at = {"LocationConstraint": REGION}
    s3: Any = boto3.Session("x", "x", region_name=REGION).client("s3")
    s3.create_bucket(Bucket="records", CreateBucketConfiguration=at)
    target = {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::records"}
    client.create_delivery_stream(DeliveryStreamName="paid", S3DestinationConfiguration=target)


PREPARE: dict[str, Callable[[Any], Any]] = {
    "sqs": _queues,
    "sns": _topics,
    "ses": _sender,
    "firehose": _stream,
    "sesv2": lambda client: client.create_email_identity(EmailIdentity="shop@example.com"),
    "s3": lambda client: client.create_bucket(Bucket="bills", CreateBucketConfiguration={"LocationConstraint": REGION}),
    "ssm": _parameters,
    "secretsmanager": lambda client: client.create_secret(Name="key", SecretString="k-1"),
    "stepfunctions": _state_machine,
    "lambda": _function,
}


@contextmanager
def _aws(kind: str) -> Iterator[Aws]:
    if kind == MOTO:
        with mock_aws(config={"lambda": {"use_docker": False}, "iam": {"load_aws_managed_policies": False}}):
            yield Aws(None)
    else:
        direct = Direct()
        with intercepted(lambda: direct):
            yield Aws(direct)


MOTO_DIFFERS = {
    "test_effect_has_the_answer_of_its_service[sns.publish to fifo]": "answers no SequenceNumber",
    "test_call_is_refused_as_its_service_does[no topic]": "answers NotFound",
    "test_call_is_refused_as_its_service_does[empty message]": "accepts it",
    "test_call_is_refused_as_its_service_does[no group]": "answers another code",
    "test_call_is_refused_as_its_service_does[no secret]": "answers HTTP 404",
}
"""How moto differs where AWS's documentation decides, by test. Each entry must fail its test."""


@pytest.fixture(params=[PORT, pytest.param(MOTO, marks=pytest.mark.slow)])
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    if request.param == MOTO and (test := request.node.name.replace("[moto-", "[")) in MOTO_DIFFERS:
        request.node.add_marker(pytest.mark.xfail(reason=MOTO_DIFFERS[test], strict=True))
    with _aws(request.param) as clients:
        yield clients


@pytest.fixture
def port() -> Iterator[Aws]:
    with _aws(PORT) as clients:
        yield clients


def shape(value: Any) -> Any:
    """Return the names and the types of an answer, and the values that are neither ids nor times."""
    match value:
        case dict():
            return {name: shape(one) for name, one in value.items() if name != "ResponseMetadata"}
        case list():
            return [shape(one) for one in value]
        case str():
            return "text"
    return value


QUEUE = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/orders"
FIFO_ENTRY = {"MessageBody": "m", "MessageGroupId": "g"}
ENTRY = {"Source": "shop", "DetailType": "paid", "Detail": '{"order": "o-1"}'}
MAIL = {"Subject": {"Data": "paid"}, "Body": {"Text": {"Data": "o-1"}}}
TO = {"ToAddresses": ["a@example.com", "b@example.com"]}

BATCHES = ("publish_batch", "put_events", "send_message_batch", "put_record_batch")
CALLS: list[tuple[str, str, dict[str, Any], Any]] = [
    ("sqs", "send_message", {"QueueUrl": QUEUE, "MessageBody": "m"}, {"MessageId": "text", "MD5OfMessageBody": "text"}),
    (
        "sqs",
        "send_message_batch",
        {"QueueUrl": QUEUE, "Entries": [{"Id": "1", "MessageBody": "m"}, {"Id": "2", "MessageBody": "n"}]},
        {"Successful": [{"Id": "text", "MessageId": "text", "MD5OfMessageBody": "text"}] * 2},
    ),
    (
        "sqs",
        "send_message",
        {"QueueUrl": f"{QUEUE}.fifo", **FIFO_ENTRY, "MessageDeduplicationId": "d"},
        {"MessageId": "text", "MD5OfMessageBody": "text", "SequenceNumber": "text"},
    ),
    ("sns", "publish", {"TopicArn": Aws.topic, "Message": "m"}, {"MessageId": "text"}),
    (
        "sns",
        "publish",
        {"TopicArn": Aws.fifo, "Message": "m", "MessageGroupId": "g"},
        {"MessageId": "text", "SequenceNumber": "text"},
    ),
    (
        "sns",
        "publish_batch",
        {
            "TopicArn": Aws.topic,
            "PublishBatchRequestEntries": [{"Id": "1", "Message": "m"}, {"Id": "2", "Message": "n"}],
        },
        {"Successful": [{"Id": "text", "MessageId": "text"}] * 2, "Failed": []},
    ),
    (
        "events",
        "put_events",
        {"Entries": [ENTRY, ENTRY]},
        {"FailedEntryCount": 0, "Entries": [{"EventId": "text"}] * 2},
    ),
    (
        "events",
        "put_events",
        {"Entries": [ENTRY, {**ENTRY, "Detail": "no JSON"}]},
        {"FailedEntryCount": 1, "Entries": [{"EventId": "text"}, {"ErrorCode": "text", "ErrorMessage": "text"}]},
    ),
    ("ses", "send_email", {"Source": "shop@example.com", "Destination": TO, "Message": MAIL}, {"MessageId": "text"}),
    (
        "ses",
        "send_raw_email",
        {
            "Source": "shop@example.com",
            "Destinations": ["a@example.com"],
            "RawMessage": {"Data": b"Subject: paid\n\no-1"},
        },
        {"MessageId": "text"},
    ),
    (
        "ses",
        "send_templated_email",
        {"Source": "shop@example.com", "Destination": TO, "Template": "paid", "TemplateData": "{}"},
        {"MessageId": "text"},
    ),
    ("firehose", "put_record", {"DeliveryStreamName": "paid", "Record": {"Data": b"o-1"}}, {"RecordId": "text"}),
    (
        "firehose",
        "put_record_batch",
        {"DeliveryStreamName": "paid", "Records": [{"Data": b"o-1"}, {"Data": b"o-2"}]},
        {"FailedPutCount": 0, "RequestResponses": [{"RecordId": "text"}] * 2},
    ),
    (
        "sesv2",
        "send_email",
        {"FromEmailAddress": "shop@example.com", "Destination": TO, "Content": {"Simple": MAIL}},
        {"MessageId": "text"},
    ),
    (
        "lambda",
        "invoke",
        {"FunctionName": "ship", "InvocationType": "Event", "Payload": b"{}"},
        {"StatusCode": 202},
    ),
    (
        "stepfunctions",
        "start_execution",
        {"stateMachineArn": Aws.machine, "name": "o-1", "input": "{}"},
        {"executionArn": "text"},
    ),
]


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "expected"),
    CALLS,
    ids=[f"{one[0]}.{one[1]}{' to fifo' if '.fifo' in str(one[2]) else ''}" for one in CALLS],
)
def test_effect_has_the_answer_of_its_service(
    aws: Aws, service: str, operation: str, parameters: dict[str, Any], expected: Any
) -> None:
    answer = getattr(aws.client_of(service), operation)(**parameters)

    shown = shape(answer)
    assert {name: shown[name] for name in expected} == expected
    if aws.direct is not None:
        entries = 2 if operation in BATCHES else 1
        assert len(effects_of(aws.direct.world)) == entries - ("no JSON" in str(parameters))


def failure(call: Callable[..., Any], **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    return f"{answer['Error']['Code']} {answer['ResponseMetadata']['HTTPStatusCode']}"


ELEVEN = [{"Id": str(one), "Message": "m"} for one in range(11)]
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "no group in a queue": (
        "sqs",
        "send_message",
        {"QueueUrl": f"{QUEUE}.fifo", "MessageBody": "m"},
        "MissingParameter 400",
    ),
    "same ids in a queue": (
        "sqs",
        "send_message_batch",
        {"QueueUrl": QUEUE, "Entries": [{"Id": "1", "MessageBody": "m"}] * 2},
        "AWS.SimpleQueueService.BatchEntryIdsNotDistinct 400",
    ),
    "no topic": ("sns", "publish", {"Message": "m"}, "InvalidParameter 400"),
    "empty message": ("sns", "publish", {"TopicArn": Aws.topic, "Message": ""}, "InvalidParameter 400"),
    "long message": ("sns", "publish", {"TopicArn": Aws.topic, "Message": "m" * 262_145}, "InvalidParameter 400"),
    "no group": ("sns", "publish", {"TopicArn": Aws.fifo, "Message": "m"}, "InvalidParameter 400"),
    "same ids": (
        "sns",
        "publish_batch",
        {"TopicArn": Aws.topic, "PublishBatchRequestEntries": ELEVEN[:1] * 2},
        "BatchEntryIdsNotDistinct 400",
    ),
    "long batch": (
        "sns",
        "publish_batch",
        {"TopicArn": Aws.topic, "PublishBatchRequestEntries": ELEVEN},
        "TooManyEntriesInBatchRequest 400",
    ),
    "many events": ("events", "put_events", {"Entries": [ENTRY] * 11}, "ValidationException 400"),
    "no object": ("s3", "get_object", {"Bucket": "bills", "Key": "none"}, "NoSuchKey 404"),
    "no head": ("s3", "head_object", {"Bucket": "bills", "Key": "none"}, "404 404"),
    "no source": ("s3", "copy_object", {"Bucket": "bills", "Key": "to", "CopySource": "bills/none"}, "NoSuchKey 404"),
    "no parameter": ("ssm", "get_parameter", {"Name": "/app/none"}, "ParameterNotFound 400"),
    "no secret": ("secretsmanager", "get_secret_value", {"SecretId": "none"}, "ResourceNotFoundException 400"),
    "name": (
        "stepfunctions",
        "start_execution",
        {"stateMachineArn": Aws.machine, "name": "a b", "input": "{}"},
        "InvalidName 400",
    ),
    "input": (
        "stepfunctions",
        "start_execution",
        {"stateMachineArn": Aws.machine, "name": "o-2", "input": "no JSON"},
        "InvalidExecutionInput 400",
    ),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_call_is_refused_as_its_service_does(aws: Aws, refused: str) -> None:
    service, operation, parameters, expected = REFUSED[refused]

    assert failure(getattr(aws.client_of(service), operation), **parameters) == expected


@pytest.mark.parametrize("token", [{}, {"MessageDeduplicationId": "d"}], ids=["content", "id"])
def test_fifo_queue_takes_a_message_once_in_five_minutes(port: Aws, token: dict[str, str]) -> None:
    assert port.direct is not None
    message = {"QueueUrl": f"{QUEUE}.fifo", **FIFO_ENTRY, **token}
    batch = {"QueueUrl": message.pop("QueueUrl"), "Entries": [{"Id": "1", **message}, {"Id": "2", **message}]}

    (first, second) = port.sqs.send_message_batch(**batch)["Successful"]

    assert first["MessageId"] == second["MessageId"]
    assert len(effects_of(port.direct.world)) == 1
    port.direct.now += 5 * 60 * 1000 - 1
    port.sqs.send_message_batch(**batch)
    assert len(effects_of(port.direct.world)) == 1
    port.direct.now += 1
    port.sqs.send_message_batch(**batch)
    assert len(effects_of(port.direct.world)) == 2


def test_fifo_topic_answers_the_first_id_within_five_minutes(aws: Aws) -> None:
    message = {"TopicArn": aws.fifo, "Message": "m", "MessageGroupId": "g", "MessageDeduplicationId": "d"}

    first, second = aws.sns.publish(**message), aws.sns.publish(**message)

    if aws.direct is not None:  # moto delivers both
        assert first["MessageId"] == second["MessageId"]
        assert len(effects_of(aws.direct.world)) == 1
        aws.direct.now += 5 * 60 * 1000
        aws.sns.publish(**message)
        assert len(effects_of(aws.direct.world)) == 2


def test_named_execution_starts_once_for_one_input(aws: Aws) -> None:
    start = {"stateMachineArn": aws.machine, "name": "o-1", "input": '{"order": 1}'}

    first, second = aws.stepfunctions.start_execution(**start), aws.stepfunctions.start_execution(**start)

    assert first["executionArn"] == second["executionArn"]
    assert first["executionArn"].endswith(":execution:ship:o-1")
    again = failure(aws.stepfunctions.start_execution, **{**start, "input": "{}"})
    assert again == "ExecutionAlreadyExists 400"
    assert aws.stepfunctions.describe_execution(executionArn=first["executionArn"])["status"] == "RUNNING"


def test_execution_without_a_name_starts_each_time(aws: Aws) -> None:
    start = {"stateMachineArn": aws.machine, "input": "{}"}

    arns = {aws.stepfunctions.start_execution(**start)["executionArn"] for _ in range(2)}

    assert len(arns) == 2


def test_object_is_read_as_it_was_last_put(aws: Aws) -> None:
    for content in (b"first", b"second"):
        aws.s3.put_object(Bucket="bills", Key="a/1", Body=content, ContentType="text/plain", Metadata={"order": "o-1"})

    got, head = (read(Bucket="bills", Key="a/1") for read in (aws.s3.get_object, aws.s3.head_object))

    assert got["Body"].read() == b"second"
    for answer in (got, head):
        assert (answer["ContentLength"], answer["ContentType"], answer["Metadata"]) == (
            6,
            "text/plain",
            {"order": "o-1"},
        )
        assert answer["ETag"] == '"a9f0e61a137d86aa9db53465e0801612"'


def test_object_is_put_once_when_it_must_not_exist(aws: Aws) -> None:
    aws.s3.put_object(Bucket="bills", Key="lock", Body=b"1", IfNoneMatch="*")

    refused = failure(aws.s3.put_object, Bucket="bills", Key="lock", Body=b"2", IfNoneMatch="*")

    assert refused == "PreconditionFailed 412"
    assert aws.s3.get_object(Bucket="bills", Key="lock")["Body"].read() == b"1"


def test_objects_are_copied_listed_and_deleted(aws: Aws) -> None:
    aws.s3.put_object(Bucket="bills", Key="a/1", Body=b"1")
    aws.s3.copy_object(Bucket="bills", Key="a/2", CopySource={"Bucket": "bills", "Key": "a/1"})
    aws.s3.copy_object(Bucket="bills", Key="b/ü", CopySource="bills/a/1")

    listed = aws.s3.list_objects_v2(Bucket="bills", Prefix="a/")
    assert ([one["Key"] for one in listed["Contents"]], listed["KeyCount"]) == (["a/1", "a/2"], 2)
    aws.s3.delete_object(Bucket="bills", Key="none")
    aws.s3.delete_objects(Bucket="bills", Delete={"Objects": [{"Key": "a/1"}, {"Key": "a/2"}]})
    left = aws.s3.list_objects_v2(Bucket="bills")
    assert [one["Key"] for one in left["Contents"]] == ["b/ü"]
    assert "Contents" not in aws.s3.list_objects_v2(Bucket="bills", Prefix="a/")


def test_values_are_found_by_name_and_path(aws: Aws) -> None:
    assert aws.ssm.get_parameter(Name="/app/table")["Parameter"]["Value"] == "orders"
    several = aws.ssm.get_parameters(Names=["/app/table", "/none"])
    assert [one["Value"] for one in several["Parameters"]] == ["orders"]
    assert several["InvalidParameters"] == ["/none"]
    below = aws.ssm.get_parameters_by_path(Path="/app")["Parameters"]
    assert [one["Name"] for one in below] == ["/app/table"]
    deep = aws.ssm.get_parameters_by_path(Path="/app", Recursive=True)["Parameters"]
    assert sorted(one["Name"] for one in deep) == ["/app/deep/one", "/app/table"]
    assert aws.secretsmanager.get_secret_value(SecretId="key")["SecretString"] == "k-1"
