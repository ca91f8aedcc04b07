"""The event sources of a template's functions, as SAM, CloudFormation or `cdk synth` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneslot.explorer.handlers.templates.intrinsics import Resolver

FUNCTIONS = ("AWS::Serverless::Function", "AWS::Lambda::Function")
SQS, FIFO, SNS, S3, BUS, SCHEDULE = "SQS", "SQS FIFO", "SNS", "S3", "EventBridge", "schedule"
HTTP_1, HTTP_2, URL, SOCKET, TASK, DYNAMODB, KINESIS = (
    *("HTTP API v1", "HTTP API v2", "function URL", "WebSocket API"),
    *("Step Functions", "DynamoDB stream", "Kinesis"),
)
QUEUES = (SQS, FIFO)
STREAMS = (DYNAMODB, KINESIS)
ASYNCHRONOUS = (SNS, S3, BUS, SCHEDULE)
"""The sources that invoke a function asynchronously: Lambda retries twice, then gives the event up."""

_OF_SAM = {
    **{"SQS": SQS, "SNS": SNS, "S3": S3, "DynamoDB": DYNAMODB, "Kinesis": KINESIS},
    **{"EventBridgeRule": BUS, "CloudWatchEvent": BUS, "Schedule": SCHEDULE, "ScheduleV2": SCHEDULE},
    **{"Api": HTTP_1, "HttpApi": HTTP_2},
}
_STATE_MACHINES = ("AWS::StepFunctions::StateMachine", "AWS::Serverless::StateMachine")
_VARIABLE = re.compile(r"\$\{([^!}.]+)[^}]*\}")
_MAPPING = "AWS::Lambda::EventSourceMapping"
_OWN_KAFKA = "self-managed Kafka"
_WITH_OUTPUTS = ("AWS::CloudFormation::Stack", "AWS::Serverless::Application")


@dataclass(frozen=True)
class FunctionSource:
    """What invokes a function.

    Attributes:
        kind: one of this module's names, or the template's own word for a source that the explorer does not know.
        name: the logical id of its queue, topic, table and so on; empty where the template has none.
        physical: the name that the resource gets.
        settings: the properties of the mapping, rule or event.
        resource: the properties of the queue, topic, table and so on; None if the template does not have it.
        topic: the name of the topic whose notifications are the bodies of the queue's messages; None if there is none.
    """

    kind: str
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] | None = None
    physical: str = ""
    topic: str | None = None

    @property
    def title(self) -> str:
        """The kind and the name, for people."""
        return f"{self.kind} {self.name}".rstrip()


def functions(resolver: Resolver) -> list[str]:
    """Return the logical ids of the functions, in the template's order."""
    return [name for name, resource in resolver.resources.items() if resource["Type"] in FUNCTIONS]


def sources_of(resolver: Resolver, function: str) -> list[FunctionSource]:
    """Return what invokes a function."""
    found = [*_events(resolver, function), *_resources(resolver, function)]
    found = found or [FunctionSource(principal) for principal in _invokers(resolver, function)]
    return list({(source.kind, source.name): source for source in found}.values())


def _invokers(resolver: Resolver, function: str) -> list[str]:
    """Return the services that may invoke a function, such as that of load balancers."""
    given = (one["Properties"] for one in resolver.resources.values() if one["Type"] == "AWS::Lambda::Permission")
    return [str(one.get("Principal")) for one in given if function in references(one.get("FunctionName"))]


def references(node: Any) -> set[str]:
    """Return the logical ids that a part of a template refers to."""
    if isinstance(node, str):
        return set()
    if isinstance(node, list):
        return {name for one in node for name in references(one)}
    if not isinstance(node, Mapping):
        return set()
    found: set[str] = set()
    for key, value in node.items():
        match key:
            case "Ref":
                found.add(str(value))
            case "Fn::GetAtt":
                found.add(value.partition(".")[0] if isinstance(value, str) else str(value[0]))
            case "Fn::Sub":
                text = value if isinstance(value, str) else value[0]
                found |= set(_VARIABLE.findall(text)) | references(value)
            case _:
                found |= references(value)
    return found


def _events(resolver: Resolver, function: str) -> Iterator[FunctionSource]:
    """Yield the events that SAM writes within the function."""
    properties = resolver.resources[function].get("Properties", {})
    for name, event in properties.get("Events", {}).items():
        own = event.get("Properties", {})
        kind = _OF_SAM.get(event["Type"], event["Type"])
        if kind == SNS and own.get("SqsSubscription"):
            yield _subscribed_queue(resolver, f"{function}{name}Queue", own)
            continue
        of = own.get("Queue", own.get("Topic", own.get("Stream", own.get("Bucket"))))
        yield _source(resolver, kind, _with_values(resolver, own), of)
    if "FunctionUrlConfig" in properties:
        yield FunctionSource(URL)


def _resources(resolver: Resolver, function: str) -> Iterator[FunctionSource]:
    """Yield the sources that are resources of their own and refer to the function, or to a version of it."""
    targets = {function} | {
        name
        for name, resource in resolver.resources.items()
        if resource["Type"] in ("AWS::Lambda::Alias", "AWS::Lambda::Version")
        and function in references(resource.get("Properties", {}).get("FunctionName"))
    }
    for name, resource in resolver.resources.items():
        own = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::Lambda::EventSourceMapping" if targets & references(own.get("FunctionName")):
                yield _source(resolver, _polled(resolver, own), own, own.get("EventSourceArn"))
            case "AWS::SNS::Subscription" if targets & references(own.get("Endpoint")):
                yield _source(resolver, SNS, own, own.get("TopicArn"))
            case "AWS::Events::Rule" if targets & references(own.get("Targets")):
                values = _with_values(resolver, own)
                yield FunctionSource(SCHEDULE if "ScheduleExpression" in own else BUS, name, values, own)
            case "AWS::Scheduler::Schedule" if targets & references(own.get("Target")):
                yield FunctionSource(SCHEDULE, name, own, own)
            case "AWS::S3::Bucket" if targets & references(own.get("NotificationConfiguration")):
                yield FunctionSource(S3, name, own, own, resolver.physical_name(name))
            case "Custom::S3BucketNotifications" if targets & references(own.get("NotificationConfiguration")):
                yield _source(resolver, S3, own, own.get("BucketName"))
            case "AWS::Lambda::Url" if targets & references(own.get("TargetFunctionArn")):
                yield FunctionSource(URL, "", own)
            case "AWS::ApiGateway::Method" if targets & references(own.get("Integration")):
                yield FunctionSource(HTTP_1, "", own)
            case "AWS::ApiGatewayV2::Integration" if targets & references(own.get("IntegrationUri")):
                yield _of_api(resolver, name, own)
            case kind if kind in _STATE_MACHINES and targets & references(own):
                yield FunctionSource(TASK, name, own, own)


def _with_values(resolver: Resolver, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the values of a rule's pattern, as far as the template gives them."""
    patterns = {"Pattern", "EventPattern"} & settings.keys()
    return {**settings, **{name: resolver.known(settings[name], settings[name]) for name in patterns}}


def _of_api(resolver: Resolver, integration: str, own: Mapping[str, Any]) -> FunctionSource:
    """Return the source of an integration of API Gateway v2: of an HTTP API, or of one route of a WebSocket API."""
    held = [resolver.resources[name] for name in references(own.get("ApiId")) & resolver.resources.keys()]
    if not any(one.get("Properties", {}).get("ProtocolType") == "WEBSOCKET" for one in held):
        return FunctionSource(HTTP_2, "", own)
    routes = [
        one["Properties"]
        for one in resolver.resources.values()
        if one["Type"] == "AWS::ApiGatewayV2::Route" and integration in references(one["Properties"].get("Target"))
    ]
    route = routes[0] if routes else {}
    return FunctionSource(SOCKET, str(route.get("RouteKey", "")), route)


def _source(resolver: Resolver, kind: str, settings: Mapping[str, Any], of: Any) -> FunctionSource:
    names = sorted(references(of) & resolver.resources.keys())
    if not names:
        return FunctionSource(kind, settings=settings)
    name, held = names[0], resolver.resources[names[0]]
    is_output = held["Type"] in _WITH_OUTPUTS  # of another template, which has the properties
    resource = None if is_output else held.get("Properties", {})
    if kind == SQS and resource and _is_true(resolver, resource.get("FifoQueue")):
        kind = FIFO
    return FunctionSource(kind, name, settings, resource, resolver.physical_name(name))


def _subscribed_queue(resolver: Resolver, made: str, own: Mapping[str, Any]) -> FunctionSource:
    """Return the queue between a topic and a function: the one that the event names, or else SAM's, whose id is `made`."""
    topic, subscription = _source(resolver, SNS, own, own.get("Topic")), own["SqsSubscription"]
    if isinstance(subscription, Mapping):
        queue = _source(resolver, SQS, subscription, subscription.get("QueueArn"))
    else:
        is_fifo = _is_true(resolver, (topic.resource or {}).get("FifoTopic"))
        queue = FunctionSource(FIFO if is_fifo else SQS, made, resource={}, physical=made)
    return replace(queue, topic=topic.physical)


def _is_true(resolver: Resolver, node: Any) -> bool:
    return str(resolver.known(node)).lower() == "true"


def _polled(resolver: Resolver, settings: Mapping[str, Any]) -> str:
    """Return the kind of source that Lambda polls, by the resource or by the words of its ARN."""
    if "SelfManagedEventSource" in settings:
        return _OWN_KAFKA
    arn = settings.get("EventSourceArn")
    types = {resolver.resources[name]["Type"] for name in references(arn) & resolver.resources.keys()}
    text = json.dumps(arn)
    for kind, service in ((SQS, "SQS"), (DYNAMODB, "DynamoDB"), (KINESIS, "Kinesis")):
        if any(one.startswith(f"AWS::{service}::") for one in types) or f":{service.lower()}:" in text:
            return kind
    named = re.search(r"arn:[^:]*:(\w+):", text)
    return next(iter(types), named[1] if named else _MAPPING)
