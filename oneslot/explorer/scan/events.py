"""The event that each kind of source sends, as AWS documents it, with the facts of a producer or a client in it."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.asked import At, Places
from oneslot.explorer.handlers.scenario import message_of
from oneslot.explorer.handlers.templates import sources
from oneslot.explorer.handlers.templates.sources import FunctionSource, chain

TEXTS = ("query", "headers", "stage", At.PARAMETERS, At.IDENTITY)
"""The places whose values are texts, whatever a client means by them."""
ANY_PATH = "/{proxy+}"
Facts = dict[str, Any]
"""The values of an event's open places, by the places' names: what a producer or a client writes."""
Tables = Mapping[str, TableSchema]

FIRST_OBJECT, _BUCKET = "first.json", "bucket"
_TIME = "2026-01-05T09:00:00Z"
_EPOCH_MS = 1_767_603_600_000
_AT_TIME = {"requestTime": "05/Jan/2026:09:00:00 +0000", "requestTimeEpoch": _EPOCH_MS}
_AT = ("eu-west-2", "111122223333")
USER = "66666666-0000-4000-8000-000000000006"
_USER_POOL = f"{_AT[0]}_aB1cD2eF3"
_CLAIMS = {"sub": USER, "email": "client-1@example.org", "cognito:username": "client-1"}
AUTHORIZERS: Mapping[str, Any] = {
    "cognito": {"claims": _CLAIMS},
    "jwt": {"jwt": {"claims": _CLAIMS, "scopes": None}},
    "lambda": {"principalId": "client-1"},
    "iam": {"iam": {"userArn": f"arn:aws:iam::{_AT[1]}:user/client-1", "userId": "client-1", "accountId": _AT[1]}},
}
_UNSIGNED = ("accessKey", "accountId", "caller", "cognitoIdentityId", "cognitoIdentityPoolId", "user", "userArn")
_IDENTITY = {**dict.fromkeys(_UNSIGNED), "sourceIp": "192.0.2.1", "userAgent": "client"}
"""The client, whose names are null unless it signs: "Input format of a Lambda function for proxy integration"."""

_OF_HTTP: Places = {
    ("queryStringParameters",): "query",
    ("headers",): "headers",
    ("stageVariables",): "stage",
    ("requestContext", "authorizer"): At.AUTHORIZER,
    ("requestContext", "identity"): At.IDENTITY,
    ("pathParameters",): At.PARAMETERS,
}
_OF_ROWS: Places = {("dynamodb", "NewImage"): At.PAYLOAD, ("dynamodb", "OldImage"): At.OLD, ("eventName",): "eventName"}
PLACES: Mapping[str, Places] = {
    **dict.fromkeys((sources.HTTP_1, sources.HTTP_2, sources.URL, sources.SOCKET), _OF_HTTP),
    **{queue: {("Records", 0, "messageAttributes"): At.ATTRIBUTES} for queue in sources.QUEUES},
    sources.SNS: {("Records", 0, "Sns", "MessageAttributes"): At.ATTRIBUTES},
    sources.S3: {("Records", 0, "s3", "object", "key"): At.KEY},
    sources.BUS: {("detail",): At.PAYLOAD, **{(one,): one for one in ("source", "detail-type", "resources")}},
    sources.SCHEDULE: {("detail",): At.PAYLOAD},
    **{kind: {(): At.PAYLOAD} for kind in (sources.TASK, sources.IOT)},
    sources.COGNITO: {("request", "userAttributes"): At.PAYLOAD, ("request", "clientMetadata"): "metadata"},
    sources.DYNAMODB: {("Records", 0, *way): name for way, name in _OF_ROWS.items()},
}
"""Where a source's event is open. All else is the source's own, and cannot grow."""


def nth(facts: Facts) -> int:
    """Return which event of its source this is, from 1. A source gives each one an id of its own."""
    return int(facts.get(At.NTH, 1))


def _id(digit: int, facts: Facts) -> str:
    """Return an id that a source gives: a message (1), an event (2), a request (3), or a change of a row (4)."""
    return f"{str(digit) * 8}-000{nth(facts) - 1}-4000-8000-{digit:012}"


def event_of(source: FunctionSource, facts: Facts, tables: Tables) -> Any:
    """Return one event as its source sends it."""
    if source.kind == sources.DYNAMODB:
        return {"Records": [_row_changed(source, facts, tables)]}
    if source.kind == sources.KINESIS:
        return {"Records": [_kinesis(source, facts)]}
    if source.kind == sources.PIPE:
        return [_polled(source, facts, tables)]
    made = _EVENTS.get(source.kind)
    event = made(source, facts) if made else copy.copy(facts[At.PAYLOAD])
    for way, name in PLACES.get(source.kind, {}).items() if made else ():
        if isinstance(facts.get(name), dict) and facts[name] and name != At.PAYLOAD:
            *outer, last = way
            within: Any = event
            for step in outer:
                within = within[step]
            within[last] = {**(within.get(last) or {}), **attributes(facts[name], name)}
    return event


def attributes(given: Mapping[str, Any], place: str = At.ATTRIBUTES) -> dict[str, Any]:
    """Return what a place holds: message attributes have a type, as SQS and SNS name it."""
    if place in TEXTS:
        return {name: one if isinstance(one, str) else json.dumps(one) for name, one in given.items()}
    if place != At.ATTRIBUTES:
        return dict(given)
    kinds = {"Type": "String", "dataType": "String"}
    made = {name: {**kinds, "Value": one, "stringValue": one} for name, one in given.items()}
    return {name: one if isinstance(one, dict) else made[name] for name, one in given.items()}


def is_raw(topic: FunctionSource) -> bool:
    """Return whether a subscription leaves out the notification's envelope."""
    return topic.kind == sources.SNS and str(topic.settings.get("RawMessageDelivery")).lower() == "true"


def written(source: FunctionSource, facts: Facts) -> str:
    """Return the text that a topic, a bucket, a rule, a pipe or a schedule writes into its queue or topic."""
    if source.kind == sources.PIPE:
        return json.dumps(_polled(source, facts, {}))
    if source.kind != sources.SNS:
        return json.dumps(_EVENTS[source.kind](source, facts))
    published = json.dumps(facts[At.PAYLOAD]) if source.feed is None else written(source.feed, facts)
    if is_raw(source):
        return published
    more = {"MessageAttributes": attributes(facts[At.ATTRIBUTES])} if facts.get(At.ATTRIBUTES) else {}
    return json.dumps({**_published(source.physical, published, facts), **more})


def _arn(service: str, name: str) -> str:
    return f"arn:aws:{service}:{':'.join(_AT)}:{name}"


def _published(topic: str, message: str, facts: Facts) -> dict[str, Any]:
    return {
        "Type": "Notification",
        "MessageId": _id(1, facts),
        "TopicArn": _arn("sns", topic),
        "Message": message,
        "Timestamp": _TIME,
    }


def _notification(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    message = json.dumps(facts[At.PAYLOAD]) if source.feed is None else written(source.feed, facts)
    notification = {**_published(source.physical, message, facts), "Subject": None, "MessageAttributes": {}}
    return {"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": notification}]}


def object_key(source: FunctionSource, facts: Facts) -> str:
    """Return a key that a bucket's notification lets through."""
    rules = json.dumps([source.settings.get("Filter"), source.settings.get("NotificationConfiguration")])
    ends = {name.lower(): value for name, value in re.findall(r'"Name": "(\w+)", "Value": "([^"]*)"', rules)}
    prefix, suffix = ends.get("prefix", ""), ends.get("suffix", "")
    if facts.get(At.KEY):
        return str(facts[At.KEY])
    name = FIRST_OBJECT if not suffix else f"first{suffix}" if suffix.startswith((".", "_", "-")) else suffix
    return f"{prefix}{name}"


def _object_created(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return a notification, whose keys S3 encodes as in a URL: "Event message structure" in its User Guide."""
    stored = {"key": quote_plus(object_key(source, facts), safe="/"), "size": 2, "sequencer": f"0{nth(facts)}"}
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": _AT[0],
        "eventTime": _TIME,
        "eventName": "ObjectCreated:Put",
        "s3": {
            "bucket": {"name": source.physical, "arn": f"arn:aws:s3:::{source.physical}"},
            "object": {**stored, "eTag": "99914b932bd37a50b983c5e7c90ae93b"},
        },
    }
    return {"Records": [record]}


def _scheduled(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return the rule's own constant input, or the event of a schedule."""
    targets = source.settings.get("Targets", source.settings.get("Target", {}))
    target = targets[0] if isinstance(targets, list) else targets
    with suppress(TypeError, ValueError):
        return {**json.loads(source.settings.get("Input", target.get("Input"))), **facts[At.PAYLOAD]}
    at = {"time": f"2026-01-0{4 + nth(facts)}T09:00:00Z"}  # no two events of a schedule are of one time
    return {**_envelope(facts, "aws.events", "Scheduled Event"), **at, "detail": dict(facts[At.PAYLOAD])}


def _envelope(facts: Facts, source: str, detail_type: str) -> dict[str, Any]:
    return {
        "version": "0",
        "id": _id(2, facts),
        "source": source,
        "detail-type": detail_type,
        "account": _AT[1],
        "time": _TIME,
        "region": _AT[0],
        "resources": facts.get("resources", ["resource-1"]),
    }


def _bus(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return an event that the rule's pattern matches, as far as the pattern lists values, prefixes and suffixes."""
    pattern = source.settings.get("Pattern", source.settings.get("EventPattern", {}))
    pattern = pattern if isinstance(pattern, Mapping) else {}
    sent = [_listed(pattern, name, facts) or usual for name, usual in (("source", "app"), ("detail-type", "Event"))]
    event = _envelope(facts, *sent)
    detail = matching(pattern.get("detail", {}))
    detail = detail if isinstance(detail, dict) else {}
    if event["source"] == "aws.s3":
        detail = {**detail, "bucket": {"name": _BUCKET, **detail.get("bucket", {})}}
        key = {"key": facts[At.KEY]} if facts.get(At.KEY) else {}
        detail["object"] = {"key": FIRST_OBJECT, "size": 2, **detail.get("object", {}), **key}
    return {**event, "detail": {**detail, **facts[At.PAYLOAD]}}


def stored_by(source: FunctionSource, facts: Facts) -> tuple[str, str] | None:
    """Return the bucket and the key of the object that an event tells of; None if it tells of none."""
    for one in chain(source):
        if one.kind == sources.S3:
            return one.physical, object_key(one, facts)
        if one.kind == sources.BUS and (event := _bus(one, facts))["source"] == "aws.s3":
            return event["detail"]["bucket"]["name"], event["detail"]["object"]["key"]
    return None


def _listed(pattern: Mapping[str, Any], name: str, facts: Facts) -> str:
    """Return what a producer sends if the pattern lets it through, or else the first that it lists."""
    listed = pattern.get(name, [facts.get(name, "")])
    texts = [one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str)]
    return facts[name] if facts.get(name) in texts else next(iter(texts), "")


def matching(pattern: Any) -> Any:
    """Return a value that a rule's pattern or a filter lets through."""
    if isinstance(pattern, Mapping):
        return {name: matching(one) for name, one in pattern.items() if not name.startswith("$")}
    first = pattern[0] if isinstance(pattern, list) and pattern else ""
    if isinstance(first, Mapping):
        if "numeric" in first:
            return next((one + 1 for one in first["numeric"] if isinstance(one, int)), 1)
        before, after = (first.get(name, "") for name in ("prefix", "suffix"))
        return f"{before}first{after}" if isinstance(before, str) and isinstance(after, str) else ""
    return first


def _context(kind: str, facts: Facts, **own: Any) -> dict[str, Any]:
    """Return a request's context: the part that all versions of API Gateway have, and a version's own."""
    return {
        "accountId": _AT[1],
        "apiId": "a1b2c3d4e5",
        "domainName": f"a1b2c3d4e5.execute-api.{_AT[0]}.amazonaws.com",
        "requestId": _id(3, facts),
        **(
            {"stage": "$default"}
            if kind == sources.HTTP_2
            else {"stage": "explored", "identity": _IDENTITY, **_AT_TIME}
        ),
        **own,
    }


def _requested(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return a request of a route, as version 1 or version 2 of the format has it."""
    path, method, concrete = _route(source, facts)
    names, begins = re.findall(r"\{([^}]+)\}", path), path.partition("{")[0]
    greedy = concrete.removeprefix(begins) if concrete.startswith(begins) else concrete.lstrip("/")
    parameters = {name.rstrip("+"): greedy if name.endswith("+") else f"{name}-1" for name in names} or None
    headers = {"content-type": "application/json"}
    event = {"headers": headers, "body": json.dumps(facts[At.PAYLOAD]), "isBase64Encoded": False}
    if source.kind == sources.HTTP_1:
        called = {"httpMethod": method, "path": concrete}
        return {
            "resource": path,
            **called,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
            "queryStringParameters": None,
            "pathParameters": parameters,
            "stageVariables": None,
            "requestContext": _context(sources.HTTP_1, facts, resourcePath=path, protocol="HTTP/1.1", **called),
            **event,
        }
    http = {"method": method, "path": concrete, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"}
    return {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": concrete,
        "rawQueryString": "",
        "pathParameters": parameters or {},
        "requestContext": _context(sources.HTTP_2, facts, http=http, time=_AT_TIME["requestTime"], timeEpoch=_EPOCH_MS),
        **event,
    }


def _socket(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return what a WebSocket API sends for a route. A message's body has the payload, and connections have headers."""
    route = source.name or "$default"
    kind = {"$connect": "CONNECT", "$disconnect": "DISCONNECT"}.get(route, "MESSAGE")
    event: dict[str, Any] = {
        "requestContext": {
            **_context(sources.SOCKET, facts),
            "routeKey": route,
            "eventType": kind,
            "messageDirection": "IN",
            "connectionId": f"L{0 if kind == 'MESSAGE' else nth(facts) - 1}SM9cOFvHcCIhw=",  # each connects once
            "connectedAt": _EPOCH_MS,
            "extendedRequestId": "JKJaXmPLvHcESHA=",
        },
        "isBase64Encoded": False,
    }
    return {**event, **({"body": json.dumps(facts[At.PAYLOAD])} if kind == "MESSAGE" else {"headers": {}})}


def _route(source: FunctionSource, facts: Facts) -> tuple[str, str, str]:
    """Return the path of a route, its method, and the path that a client asks for."""
    path, method = str(source.settings.get("Path", ANY_PATH)), str(source.settings.get("Method", "ANY")).upper()
    method = facts.get(At.METHOD, "POST") if method in ("ANY", "*") else method
    return (
        path,
        method,
        facts.get(At.PATH) or concrete_path(path, attributes(facts.get(At.PARAMETERS, {}), At.PARAMETERS)),
    )


def concrete_path(path: str, values: Mapping[str, str]) -> str:
    """Return a path whose parameters, {id} or <id>, have values: these, or their names."""
    return re.sub(r"[{<](?:\w+:)?([^}>:]+?)\+?(?::\w+)?[}>]", lambda one: values.get(one[1], f"{one[1]}-1"), path)


_AFTER = {"PreSignUp": "SignUp", "PostConfirmation": "ConfirmSignUp", "CustomMessage": "SignUp"}
"""What a user does at a trigger; at all others "Authentication"."""


def _triggered(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return what a user pool sends: "Customizing user pool workflows with Lambda triggers" in Cognito's guide."""
    trigger = source.settings.get("Trigger", "")
    trigger = trigger[0] if isinstance(trigger, list) and trigger else str(trigger)
    user = {"sub": USER, "email": "client-1@example.org", "cognito:user_status": "CONFIRMED", **facts[At.PAYLOAD]}
    return {
        "version": "1",
        "triggerSource": f"{trigger.replace('PreToken', 'Token')}_{_AFTER.get(trigger, 'Authentication')}",
        "region": _AT[0],
        "userPoolId": _USER_POOL,
        "userName": "client-1",
        "callerContext": {"awsSdkVersion": "aws-sdk-unknown-unknown", "clientId": "a1b2c3d4e5f6g7h8i9j0k1l2m3"},
        "request": {"userAttributes": user},
        "response": {},
    }


def _logged(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    """Return what CloudWatch Logs sends to a subscribed function: gzip, then base64."""
    log = {"messageType": "DATA_MESSAGE", "owner": _AT[1], "logGroup": "/aws/lambda/app", "logStream": "stream"}
    events = [{"id": str(nth(facts)), "timestamp": _EPOCH_MS, "message": json.dumps(facts[At.PAYLOAD])}]
    text = json.dumps({**log, "subscriptionFilters": ["filter"], "logEvents": events})
    return {"awslogs": {"data": base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()}}


def _polled(source: FunctionSource, facts: Facts, tables: Tables) -> dict[str, Any]:
    """Return one record of a pipe's source, which the pipe sends in a list."""
    fed = source.feed
    if fed is not None and fed.kind == sources.DYNAMODB:
        return _row_changed(fed, facts, tables)
    if fed is not None and fed.kind == sources.KINESIS:
        record = _kinesis(fed, facts)
        return {**record.pop("kinesis"), **record}
    body = json.dumps(facts[At.PAYLOAD]) if fed is None or fed.feed is None else written(fed.feed, facts)
    arn = _arn("sqs", fed.physical if fed is not None else "queue")
    return {**message_of(nth(facts), body).record(nth(facts)), "receiptHandle": "receipt", "eventSourceARN": arn}


def keys_of(schema: TableSchema | None, number: int) -> dict[str, Any]:
    """Return the key of a made row."""
    kinds = {name: schema.types.get(name, "S") for name in schema.keys} if schema else {}
    return {name: number if kind == "N" else f"{name}-{number}" for name, kind in kinds.items()}


def _row_changed(source: FunctionSource, facts: Facts, tables: Tables) -> dict[str, Any]:
    """Return a record of a table's stream: "Record" in DynamoDB Streams' API reference."""
    number = nth(facts)
    keys = {name: typed(one) for name, one in keys_of(tables.get(source.physical), number).items()}
    before = {**varied(facts[At.PAYLOAD], 0), **facts.get(At.OLD, {})}
    new, old = ({name: typed(one) for name, one in image.items()} for image in (facts[At.PAYLOAD], before))
    own = {name: facts[At.PAYLOAD][name] for name in keys if isinstance(facts[At.PAYLOAD].get(name), str)}
    keys |= {name: {"S": one} for name, one in own.items()}
    what = facts.get("eventName") or ("MODIFY" if At.OLD in facts else "INSERT")
    images = {"NewImage": {**new, **keys}, "OldImage": {**old, **keys}}
    absent = {"INSERT": "OldImage", "REMOVE": "NewImage"}.get(what)
    return {
        "eventID": _id(4, facts).replace("-", ""),
        "eventName": what,
        "eventSource": "aws:dynamodb",
        "eventSourceARN": _arn("dynamodb", f"table/{source.physical}/stream/2026-01-01T00:00:00.000"),
        "awsRegion": _AT[0],
        "dynamodb": {
            "Keys": keys,
            **{name: image for name, image in images.items() if name != absent},
            "SequenceNumber": f"10000000000000000000{number}",
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    }


_OWN = re.compile(r"(?<=-)1(?=@|$)|(?<=/)1$|(?<=-00000000000)\d$|^1$")
"""The digit by which one made text differs from another: of a name, an address, a URL, a UUID or a number."""


def varied(value: Any, number: int) -> Any:
    """Return a value of the same form whose own values are all others: numbers, and made texts."""
    if isinstance(value, Mapping):
        return {name: varied(one, number) for name, one in value.items()}
    if isinstance(value, list):
        return [varied(one, number) for one in value]
    if isinstance(value, str):
        return _OWN.sub(str(number), value)
    return value + number - 1 if isinstance(value, int) and not isinstance(value, bool) else value


def typed(value: Any) -> dict[str, Any]:
    """Return a value as DynamoDB's streams write it."""
    if isinstance(value, Mapping):
        return {"M": {name: typed(one) for name, one in value.items()}}
    if isinstance(value, list):
        return {"L": [typed(one) for one in value]}
    if isinstance(value, bool) or value is None:
        return {"BOOL": bool(value)}
    return {"N": str(value)} if isinstance(value, int) else {"S": str(value)}


def _kinesis(source: FunctionSource, facts: Facts) -> dict[str, Any]:
    number = nth(facts)
    sequence_number = str(49590338271490256608559692538361571095921575989136588897 + number)
    return {
        "eventID": f"shardId-000000000000:{sequence_number}",
        "eventName": "aws:kinesis:record",
        "eventSource": "aws:kinesis",
        "eventSourceARN": _arn("kinesis", f"stream/{source.physical}"),
        "awsRegion": _AT[0],
        "kinesis": {
            "partitionKey": str(number),
            "sequenceNumber": sequence_number,
            "data": base64.b64encode(json.dumps(facts[At.PAYLOAD]).encode()).decode(),
            "approximateArrivalTimestamp": _EPOCH_MS / 1000,
        },
    }


_EVENTS: Mapping[str, Callable[[FunctionSource, Facts], dict[str, Any]]] = {
    **{sources.SNS: _notification, sources.S3: _object_created, sources.BUS: _bus, sources.SCHEDULE: _scheduled},
    **{sources.HTTP_1: _requested, sources.HTTP_2: _requested, sources.URL: _requested, sources.SOCKET: _socket},
    **{sources.COGNITO: _triggered, sources.LOGS: _logged},
}
