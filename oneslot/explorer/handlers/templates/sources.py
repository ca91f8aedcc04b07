"""The event sources of a template's functions, as SAM, CloudFormation or `cdk synth` writes them."""

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
COGNITO, IOT, LOGS, PIPE = "Cognito", "IoT rule", "CloudWatch Logs", "pipe"
QUEUES = (SQS, FIFO)
STREAMS = (DYNAMODB, KINESIS)
ASYNCHRONOUS = (SNS, S3, BUS, SCHEDULE, IOT, LOGS)
"""The sources that invoke a function asynchronously: Lambda retries twice, then gives the event up."""
KNOWN = (*QUEUES, *STREAMS, *ASYNCHRONOUS, HTTP_1, HTTP_2, URL, SOCKET, TASK, COGNITO, PIPE)

_OF_SAM = {
    **{"SQS": SQS, "SNS": SNS, "S3": S3, "DynamoDB": DYNAMODB, "Kinesis": KINESIS},
    **{"EventBridgeRule": BUS, "CloudWatchEvent": BUS, "Schedule": SCHEDULE, "ScheduleV2": SCHEDULE},
    **{"Api": HTTP_1, "HttpApi": HTTP_2, "Cognito": COGNITO, "IoTRule": IOT, "CloudWatchLogs": LOGS},
}
_STATE_MACHINES = ("AWS::StepFunctions::StateMachine", "AWS::Serverless::StateMachine")
_VARIABLE = re.compile(r"\$\{([^!}.]+)[^}]*\}")
_MAPPING = "AWS::Lambda::EventSourceMapping"
_OWN_KAFKA = "self-managed Kafka"
_OF_CDK = re.compile(
    r"BucketNotificationsHandler|LogRetention|Custom(?:S3AutoDelete|CDK|Vpc|CrossRegion)|AWS679f53|\w*framework(?:on|is)[A-Z]"
)
"""How the logical ids of CDK's own functions begin."""
_WITH_OUTPUTS = ("AWS::CloudFormation::Stack", "AWS::Serverless::Application")


@dataclass(frozen=True)
class FunctionSource:
    """What invokes a function.

    Attributes:
        kind: one of this module's names, or the template's own word for a source that the explorer does not know.
        name: the logical id of its queue, topic, table and so on, or the route of its API; empty where there is none.
        physical: the name that the resource gets.
        settings: the properties of the mapping, rule or event.
        resource: the properties of the queue, topic, table and so on; None if the template does not have it.
        feed: what writes into it: a topic, a bucket, a rule, a pipe, or the source of a pipe; None if a producer does.
        auth: how its API authorizes a client: "cognito", "jwt", "lambda", "iam"; empty if it does not.
    """

    kind: str
    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] | None = None
    physical: str = ""
    feed: "FunctionSource | None" = None
    auth: str = ""

    @property
    def title(self) -> str:
        """The kind and the name, for people."""
        return f"{self.kind} {self.name}".rstrip()


def chain(source: FunctionSource) -> Iterator[FunctionSource]:
    """Yield the source, what feeds it, and so on."""
    held: FunctionSource | None = source
    while held is not None:
        yield held
        held = held.feed


def functions(resolver: Resolver) -> list[str]:
    """Return the logical ids of the functions, in the template's order."""
    given = resolver.resources.items()
    return [name for name, resource in given if resource["Type"] in FUNCTIONS and not _OF_CDK.match(name)]


def sources_of(resolver: Resolver, function: str) -> list[FunctionSource]:
    """Return what invokes a function: each route of an API is a source of its own."""
    found = [*_events(resolver, function), *_resources(resolver, function)]
    if not found:  # a service that may invoke it, such as that of load balancers
        given = [one["Properties"] for one in resolver.resources.values() if one["Type"] == "AWS::Lambda::Permission"]
        allowed = [one for one in given if function in references(one.get("FunctionName"))]
        found = [FunctionSource(str(one.get("Principal"))) for one in allowed]
    asked = [one for one in found if not one.name.startswith("OPTIONS ")]  # as a browser does before a request
    fed = [one if one.feed or not one.name else replace(one, feed=_feed(resolver, one)) for one in asked or found]
    return list({(source.kind, source.name): source for source in fed}.values())


def _feed(resolver: Resolver, source: FunctionSource) -> FunctionSource | None:
    """Return what writes into a queue or a topic, one step after another."""
    if source.kind not in (*QUEUES, SNS):
        return None
    fed = next((one for one in _into(resolver, {source.name}) if one.name != source.name), None)
    return replace(fed, feed=fed.feed or _feed(resolver, fed)) if fed else None


def _into(resolver: Resolver, targets: set[str]) -> Iterator[FunctionSource]:  # noqa: PLR0912 - a case for each type
    """Yield what sends to one of the targets: functions, queues or topics of the template."""
    for name, resource in resolver.resources.items():
        own = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::SNS::Subscription" if targets & references(own.get("Endpoint")):
                yield _source(resolver, SNS, own, own.get("TopicArn"))
            case "AWS::SNS::Topic":
                for one in own.get("Subscription", ()):
                    if targets & references(one.get("Endpoint")):
                        yield FunctionSource(SNS, name, one, own, resolver.physical_name(name))
            case "AWS::Events::Rule":
                for one in own.get("Targets", ()):
                    if targets & references(one.get("Arn")):
                        kind = SCHEDULE if "ScheduleExpression" in own else BUS
                        yield FunctionSource(kind, name, {**_with_values(resolver, own), "Target": one}, own)
            case "AWS::Scheduler::Schedule" if targets & references(own.get("Target")):
                yield FunctionSource(SCHEDULE, name, own, own)
            case "AWS::S3::Bucket":
                for one in _listed(own.get("NotificationConfiguration"), targets):
                    yield FunctionSource(S3, name, one, own, resolver.physical_name(name))
            case "Custom::S3BucketNotifications":
                for one in _listed(own.get("NotificationConfiguration"), targets):
                    yield _source(resolver, S3, one, own.get("BucketName"))
            case "AWS::Pipes::Pipe" if targets & references(own.get("Target")):
                of = own.get("SourceParameters", {})
                fed = _source(resolver, _polled(resolver, {"EventSourceArn": own.get("Source")}), of, own.get("Source"))
                yield FunctionSource(PIPE, name, own, own, feed=replace(fed, feed=_feed(resolver, fed)))


def _listed(notifications: Any, targets: set[str]) -> list[Mapping[str, Any]]:
    """Return the notifications of a bucket that go to one of the targets."""
    held = notifications.values() if isinstance(notifications, Mapping) else ()
    every = [one for listed in held if isinstance(listed, list) for one in listed]
    return [one if isinstance(one, Mapping) else {} for one in every if targets & references(one)]


_AUTHORIZATIONS = {"COGNITO_USER_POOLS": "cognito", "JWT": "jwt", "AWS_IAM": "iam", "CUSTOM": "lambda"}


def _auth(resolver: Resolver, kind: str, own: Mapping[str, Any]) -> str:
    """Return how the API of SAM's event, of a method or of a route authorizes its client."""
    if own.get("AuthorizationType") in _AUTHORIZATIONS:
        return _AUTHORIZATIONS[own["AuthorizationType"]]
    apis = references(own.get("RestApiId", own.get("ApiId"))) & resolver.resources.keys()
    held = [resolver.resources[name].get("Properties", {}) for name in sorted(apis)]
    held.append(resolver.template.get("Globals", {}).get("Api" if kind == HTTP_1 else "HttpApi", {}))
    auth: Mapping[str, Any] = next((one["Auth"] for one in held if "Auth" in one), {})
    name = own.get("Auth", {}).get("Authorizer", auth.get("DefaultAuthorizer"))
    if name in (None, "NONE"):
        return ""
    authorizer = auth.get("Authorizers", {}).get(name, {})
    if name == "AWS_IAM" or "UserPoolArn" in authorizer:
        return "iam" if name == "AWS_IAM" else "cognito"
    return "jwt" if "JwtConfiguration" in authorizer else "lambda"


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
        of = own.get("Queue", own.get("Topic", own.get("Stream", own.get("Bucket", own.get("UserPool")))))
        if kind in (HTTP_1, HTTP_2):
            yield _route(resolver, kind, own, own.get("Method"), own.get("Path"))
        else:
            yield _source(resolver, kind, _with_values(resolver, own), of)
    if "FunctionUrlConfig" in properties:
        yield FunctionSource(URL)


def _route(resolver: Resolver, kind: str, own: Mapping[str, Any], method: Any, path: Any) -> FunctionSource:
    """Return one route of an API, whose name is its method and its path."""
    if not path:  # the route $default, or SAM's event without one
        return FunctionSource(kind, str(method or ""), own, auth=_auth(resolver, kind, own))
    route = {"Method": str(method or "ANY").upper(), "Path": str(path)}
    name = f"{route['Method']} {route['Path']}"
    return FunctionSource(kind, name, {**own, **route}, auth=_auth(resolver, kind, own))


def _resources(resolver: Resolver, function: str) -> Iterator[FunctionSource]:
    """Yield the sources that are resources of their own and refer to the function, or to a version of it."""
    targets = {function} | {
        name
        for name, resource in resolver.resources.items()
        if resource["Type"] in ("AWS::Lambda::Alias", "AWS::Lambda::Version")
        and function in references(resource.get("Properties", {}).get("FunctionName"))
    }
    yield from _into(resolver, targets)
    for name, resource in resolver.resources.items():
        own = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::Lambda::EventSourceMapping" if targets & references(own.get("FunctionName")):
                yield _source(resolver, _polled(resolver, own), own, own.get("EventSourceArn"))
            case "AWS::Lambda::Url" if targets & references(own.get("TargetFunctionArn")):
                yield FunctionSource(URL, "", own)
            case "AWS::Cognito::UserPool":
                for trigger, target in own.get("LambdaConfig", {}).items():
                    if targets & references(target):
                        yield FunctionSource(COGNITO, name, {"Trigger": trigger}, own)
            case "AWS::IoT::TopicRule" if targets & references(own.get("TopicRulePayload", {}).get("Actions")):
                yield FunctionSource(IOT, name, own, own)
            case "AWS::Logs::SubscriptionFilter" if targets & references(own.get("DestinationArn")):
                yield FunctionSource(LOGS, name, own, own)
            case "AWS::ApiGateway::Method" if targets & references(own.get("Integration")):
                yield _route(resolver, HTTP_1, own, own.get("HttpMethod"), _path(resolver, own))
            case "AWS::ApiGatewayV2::Integration" if targets & references(own.get("IntegrationUri")):
                yield from _of_api(resolver, name, own)
            case kind if kind in _APIS:
                body = own.get("DefinitionBody", own.get("Body"))
                yield from _of_body(resolver, HTTP_2 if "Http" in kind or "V2" in kind else HTTP_1, body, targets)
            case kind if kind in _STATE_MACHINES and targets & references(own):
                yield FunctionSource(TASK, name, own, own)


_APIS = ("AWS::Serverless::Api", "AWS::Serverless::HttpApi", "AWS::ApiGateway::RestApi", "AWS::ApiGatewayV2::Api")


def _of_body(resolver: Resolver, kind: str, body: Any, targets: set[str]) -> Iterator[FunctionSource]:
    """Yield the routes of an API's OpenAPI document that integrate a function."""
    paths = body.get("paths") if isinstance(body, Mapping) else None
    for path, methods in (paths or {}).items():
        for method, one in methods.items() if isinstance(methods, Mapping) else ():
            integration = one.get("x-amazon-apigateway-integration") if isinstance(one, Mapping) else None
            if method != "options" and integration and targets & references(integration):
                own = {"Integration": integration}
                yield _route(resolver, kind, own, "ANY" if method.startswith("x-") else method, path)


def _path(resolver: Resolver, method: Mapping[str, Any]) -> str:
    """Return the path of a REST API's method, from its resource and those above it."""
    parts: list[str] = []
    names = references(method.get("ResourceId")) & resolver.resources.keys()
    while names:
        held = resolver.resources[names.pop()]
        if held["Type"] != "AWS::ApiGateway::Resource":
            break
        parts.insert(0, str(held["Properties"].get("PathPart", "")))
        names = references(held["Properties"].get("ParentId")) & resolver.resources.keys()
    return f"/{'/'.join(parts)}"


def _with_values(resolver: Resolver, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the values of a rule's pattern, as far as the template gives them."""
    patterns = {"Pattern", "EventPattern"} & settings.keys()
    return {**settings, **{name: resolver.known(settings[name], settings[name]) for name in patterns}}


def _of_api(resolver: Resolver, integration: str, own: Mapping[str, Any]) -> Iterator[FunctionSource]:
    """Yield the routes of an integration of API Gateway v2: of an HTTP API, or of a WebSocket API."""
    held = [resolver.resources[name] for name in references(own.get("ApiId")) & resolver.resources.keys()]
    is_socket = any(one.get("Properties", {}).get("ProtocolType") == "WEBSOCKET" for one in held)
    routes = [
        one["Properties"]
        for one in resolver.resources.values()
        if one["Type"] == "AWS::ApiGatewayV2::Route" and integration in references(one["Properties"].get("Target"))
    ]
    for route in routes or [{}]:
        if is_socket:
            yield FunctionSource(SOCKET, str(route.get("RouteKey", "")), route)
        else:
            method, _, path = str(route.get("RouteKey", "")).partition(" ")
            yield _route(resolver, HTTP_2, {**own, **route}, method, path)


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
    return replace(queue, feed=replace(topic, feed=_feed(resolver, topic) if topic.name else None))


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
