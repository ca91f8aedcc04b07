"""The sources of a template's functions, and the first event of each."""

import base64
import json
from functools import partial
from typing import Any

import pytest

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.asked import At
from oneslot.explorer.handlers.templates.intrinsics import Resolver
from oneslot.explorer.handlers.templates.sources import (
    BUS,
    DYNAMODB,
    FIFO,
    HTTP_1,
    HTTP_2,
    KINESIS,
    S3,
    SCHEDULE,
    SNS,
    SOCKET,
    SQS,
    TASK,
    URL,
    FunctionSource,
    sources_of,
)
from oneslot.explorer.scan.events import event_of
from oneslot.explorer.scan.first_events import options_for

FUNCTION = {"Type": "AWS::Lambda::Function"}
ARN = {"Fn::GetAtt": ["F", "Arn"]}


def _resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def _found(**resources: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.name) for one in sources_of(Resolver({"Resources": resources}, {}), "F")]


def _event(kind: str, **properties: Any) -> dict[str, Any]:
    """Return a function of SAM that writes its event within itself."""
    return _resource("AWS::Serverless::Function", Events={"One": {"Type": kind, "Properties": properties}})


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (_event("SQS", Queue={"Fn::GetAtt": ["R", "Arn"]}), SQS),
        (_event("SNS", Topic={"Ref": "R"}), SNS),
        (_event("S3", Bucket={"Ref": "R"}), S3),
        (_event("DynamoDB", Stream={"Fn::GetAtt": "R.StreamArn"}), DYNAMODB),
        (_event("Kinesis", Stream={"Fn::GetAtt": "R.Arn"}), KINESIS),
        (_event("EventBridgeRule"), BUS),
        (_event("Schedule"), SCHEDULE),
        (_event("Api", Path="/", Method="post"), HTTP_1),
        (_event("HttpApi"), HTTP_2),
        (_event("Cognito", UserPool={"Ref": "R"}), "Cognito"),
    ],
)
def test_sources_are_found_when_sam_writes_them_in_the_function(function: dict[str, Any], kind: str) -> None:
    assert [one for one, _ in _found(F=function, R=_resource("AWS::X::Y"))] == [kind]


MAPPING = partial(_resource, "AWS::Lambda::EventSourceMapping")


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        (_resource("AWS::SNS::Subscription", Endpoint=ARN, TopicArn={"Ref": "T"}), SNS),
        (_resource("AWS::Events::Rule", Targets=[{"Arn": ARN}], EventPattern={}), BUS),
        (_resource("AWS::Events::Rule", Targets=[{"Arn": ARN}], ScheduleExpression="rate(1 day)"), SCHEDULE),
        (_resource("AWS::Scheduler::Schedule", Target={"Arn": ARN}), SCHEDULE),
        (_resource("AWS::S3::Bucket", NotificationConfiguration={"LambdaConfigurations": [{"Function": ARN}]}), S3),
        (_resource("Custom::S3BucketNotifications", NotificationConfiguration={"X": [ARN]}), S3),
        (_resource("AWS::Lambda::Url", TargetFunctionArn=ARN), URL),
        (_resource("AWS::ApiGateway::Method", Integration={"Uri": {"Fn::Sub": "arn:x/${F.Arn}/invocations"}}), HTTP_1),
        (_resource("AWS::ApiGatewayV2::Integration", IntegrationUri=ARN), HTTP_2),
        (_resource("AWS::StepFunctions::StateMachine", DefinitionString={"Fn::Join": ["", ["x", ARN]]}), TASK),
        (MAPPING(FunctionName={"Ref": "F"}, EventSourceArn="arn:aws:sqs:x:1:q"), SQS),
        (MAPPING(FunctionName=ARN, EventSourceArn="arn:aws:mq:x:1:broker"), "mq"),
        (MAPPING(FunctionName=ARN, SelfManagedEventSource={}), "self-managed Kafka"),
        (
            _resource("AWS::Lambda::Permission", FunctionName=ARN, Principal="cognito-idp.amazonaws.com"),
            "cognito-idp.amazonaws.com",
        ),
    ],
)
def test_sources_are_found_and_unknown_ones_named_when_they_are_resources(resource: dict[str, Any], kind: str) -> None:
    assert [one for one, _ in _found(F=FUNCTION, R=resource, T=_resource("AWS::SNS::Topic"))] == [kind]


def test_a_mapping_of_an_alias_is_the_functions() -> None:
    mapping = MAPPING(FunctionName={"Ref": "A"}, EventSourceArn={"Fn::GetAtt": ["Q", "Arn"]})
    alias = _resource("AWS::Lambda::Alias", FunctionName={"Ref": "F"})

    assert _found(F=FUNCTION, A=alias, M=mapping, Q=_resource("AWS::SQS::Queue", FifoQueue=True)) == [(FIFO, "Q")]


@pytest.mark.parametrize(
    ("subscription", "topic", "kind", "name", "resource"),
    [
        (True, {}, SQS, "FOneQueue", {}),
        (True, {"FifoTopic": True}, FIFO, "FOneQueue", {}),
        ({"QueueArn": {"Fn::GetAtt": "Q.Arn"}, "BatchSize": 5}, {}, SQS, "Q", {"VisibilityTimeout": 60}),
        ({"QueueArn": "arn:aws:sqs:x:1:q"}, {}, SQS, "", None),
        (False, {}, SNS, "T", {}),
    ],
)
def test_topic_is_a_queue_when_sam_subscribes_through_one(
    subscription: Any, topic: dict[str, Any], kind: str, name: str, resource: Any
) -> None:
    resources = {
        "F": _event("SNS", Topic={"Ref": "T"}, SqsSubscription=subscription),
        "T": _resource("AWS::SNS::Topic", **topic),
        "Q": _resource("AWS::SQS::Queue", VisibilityTimeout=60),
    }

    (source,) = sources_of(Resolver({"Resources": resources}, {}), "F")

    assert (source.kind, source.name, source.resource) == (kind, name, resource)
    if kind != SNS:
        (body,) = options_for(source, {At.PAYLOAD: {"id": "1"}}, {})["messages"]
        assert json.loads(json.loads(body)["Message"]) == {"id": "1"}


@pytest.mark.parametrize(
    ("queue", "properties"),
    [
        ({"Type": "AWS::SQS::Queue"}, {}),
        (_resource("AWS::SQS::Queue", VisibilityTimeout=60), {"VisibilityTimeout": 60}),
        (_resource("AWS::CloudFormation::Stack", TemplateURL="queues.yaml"), None),
    ],
)
def test_queue_has_properties_when_its_own_template_declares_it(queue: Any, properties: Any) -> None:
    function = _event("SQS", Queue={"Fn::GetAtt": ["Q", "Arn"]})

    (source,) = sources_of(Resolver({"Resources": {"F": function, "Q": queue}}, {}), "F")

    assert source.resource == properties


def test_each_event_has_the_payload_where_a_producer_writes() -> None:
    payload = {"id": "1"}
    tables = {"orders": TableSchema("pk", "n", types={"pk": "S", "n": "N"})}

    def event(kind: str, **settings: Any) -> Any:
        return event_of(FunctionSource(kind, "Orders", settings, {}, "orders"), {At.PAYLOAD: payload}, tables)

    row = event(DYNAMODB)["Records"][0]["dynamodb"]
    assert row["Keys"] == {"pk": {"S": "pk-1"}, "n": {"N": "1"}}
    assert row["NewImage"] == {"id": {"S": "1"}, **row["Keys"]}
    assert json.loads(event(SNS)["Records"][0]["Sns"]["Message"]) == payload
    assert json.loads(base64.b64decode(event(KINESIS)["Records"][0]["kinesis"]["data"])) == payload
    assert json.loads(event(URL)["body"]) == json.loads(event(HTTP_1)["body"]) == payload
    assert event(HTTP_2, Path="/orders/{id}", Method="put")["rawPath"] == "/orders/id-1"
    assert event(S3)["Records"][0]["s3"]["bucket"]["name"] == "orders"
    bus = event(BUS, Pattern={"source": ["shop"], "detail-type": ["Paid"], "detail": {"kind": ["card"]}})
    assert (bus["source"], bus["detail-type"], bus["detail"]) == ("shop", "Paid", {"kind": "card", "id": "1"})
    assert event(TASK) == payload
    assert event(SCHEDULE)["time"] != event_of(FunctionSource(SCHEDULE), {At.PAYLOAD: {}, At.NTH: 2}, {})["time"]
    assert event(SCHEDULE, Targets=[{"Input": '{"kind": "poll"}'}]) == {"kind": "poll", **payload}


def test_route_of_a_websocket_api_has_an_event_of_its_own() -> None:
    integration = _resource("AWS::ApiGatewayV2::Integration", ApiId={"Ref": "A"}, IntegrationUri=ARN)
    route = _resource("AWS::ApiGatewayV2::Route", RouteKey="$connect", Target={"Fn::Join": ["/", ["x", {"Ref": "I"}]]})
    api = _resource("AWS::ApiGatewayV2::Api", ProtocolType="WEBSOCKET")

    assert _found(F=FUNCTION, I=integration, R=route, A=api) == [(SOCKET, "$connect")]
    connection, other = (event_of(FunctionSource(SOCKET, "$connect"), {At.PAYLOAD: {}, At.NTH: n}, {}) for n in (1, 2))
    message = event_of(FunctionSource(SOCKET, "order"), {At.PAYLOAD: {"id": "1"}}, {})
    assert other["requestContext"]["connectionId"] != connection["requestContext"]["connectionId"]
    assert (connection["requestContext"]["eventType"], "body" in connection) == ("CONNECT", False)
    assert (message["requestContext"]["routeKey"], json.loads(message["body"])) == ("order", {"id": "1"})


def test_pattern_of_a_bucket_gives_the_event_its_bucket_and_object() -> None:
    pattern = {
        "source": ["aws.s3"],
        "detail": {"bucket": {"name": [{"Ref": "B"}]}, "object": {"key": [{"prefix": "in/"}, "x"]}},
    }
    rule = _resource("AWS::Events::Rule", EventPattern=pattern, Targets=[{"Arn": ARN}])
    bucket = _resource("AWS::S3::Bucket", BucketName="uploads")
    (source,) = sources_of(Resolver({"Resources": {"F": FUNCTION, "R": rule, "B": bucket}}, {}), "F")

    options = options_for(source, {At.PAYLOAD: {"id": "1"}}, {})

    assert options["event"]["detail"] == {
        "bucket": {"name": "uploads"},
        "object": {"key": "in/first", "size": 2},
        "id": "1",
    }
    assert options["objects"] == {"uploads": {"in/first": '{"id": "1"}'}}


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (FIFO, {"messages": ["{}"], "fifo": True}),
        (SQS, {"messages": ["{}"], "fifo": False}),
        (TASK, {"event": {}, "fifo": True}),
    ],
)
def test_a_source_has_its_own_rules_of_delivery(kind: str, rules: dict[str, Any]) -> None:
    assert options_for(FunctionSource(kind), {At.PAYLOAD: {}}, {}) == {"parameters": {}, "secrets": {}, **rules}
