"""A first event for each kind of source, and how it comes again.

A template does not say what a body holds. So the payload begins empty and grows by what the handler asks for: see `grow`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.templates.sources import (
    ASYNCHRONOUS,
    BUS,
    DYNAMODB,
    FIFO,
    HTTP_1,
    HTTP_2,
    KINESIS,
    QUEUES,
    S3,
    SCHEDULE,
    SNS,
    SOCKET,
    STREAMS,
    TASK,
    URL,
    FunctionSource,
)

KNOWN = (*QUEUES, *STREAMS, *ASYNCHRONOUS, HTTP_1, HTTP_2, URL, SOCKET, TASK)
RETRIES_S = 60
"""The seconds before Lambda's first retry of an asynchronous invocation."""
ASYNCHRONOUS_ATTEMPTS = 3
"""An asynchronous invocation and its two retries: Lambda, "Understanding retry behavior"."""

FIRST_OBJECT, _BUCKET = "first.json", "bucket"

_TIME = "2026-01-05T09:00:00Z"
_AT = ("eu-west-2", "111122223333")
_OF_ANSWERS = ("Item", "Items", "Attributes", "Body")
"""What an answer of AWS lacks where nothing is there. No payload can give it."""
_MISSING = re.compile(r"KeyError: ['\"]([^'\"]+)['\"]|Missing the key (\w+) in the item")
_TAKES_PARTS = re.compile(r"string indices must be integers|'str' object has no attribute '(?:get|items|keys|values)'")
_TAKES_NUMBERS = re.compile(
    r"invalid literal for int|could not convert string to float|unsupported operand type|ConversionSyntax"
    r"|not supported between instances of '(?:str|int)' and '(?:str|int)'|Float types are not supported"
    r"|cannot be converted to a numeric value|operand in the update expression has an incorrect data type"
)


@dataclass
class Payload:
    """What a producer would write.

    Attributes:
        value: the payload.
        added: where each name was added, in order: the object, and the name.
        last: the one of these that the last failure was about.
    """

    value: dict[str, Any] = field(default_factory=dict)
    added: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    last: tuple[dict[str, Any], str] | None = None
    _tried: list[tuple[dict[str, Any], str, str]] = field(default_factory=list)

    def grow(self, failure: str) -> bool:
        """Add what this failure says is missing. Return whether it said so."""
        missing = _MISSING.search(failure)
        name = (missing[1] or missing[2]) if missing else ""
        takes_parts = not name and bool(_TAKES_PARTS.search(failure))
        if not takes_parts:
            self._tried.clear()
        if name and name not in _OF_ANSWERS:
            return self._add(name)
        if self.last is None:
            return False
        if takes_parts:
            return self._make_object()
        within, name = self.last
        if _TAKES_NUMBERS.search(failure) and isinstance(within[name], str):
            within[name] = 1
            return True
        return False

    def _add(self, name: str) -> bool:
        """Add a name beside the last one, and if it is still missed there, one level further out."""
        within = self.value
        if self.last is not None:
            beside, last = self.last
            within = beside[last] if isinstance(beside[last], dict) else beside
            if within is not self.value and name in within:
                del within[name]
                within = next(one for one in _objects(self.value) if any(held is within for held in one.values()))
        if name in within:
            return False
        within[name] = f"{name.lower().replace(' ', '-')}-1"
        self.last = (within, name)
        self.added.append(self.last)
        return True

    def _make_object(self) -> bool:
        """Make the newest text an object. If that did not help, put it back, and take the one before it."""
        if self._tried:
            within, name, text = self._tried[-1]
            within[name] = text
        for within, name in reversed(self.added):
            text = within.get(name)
            if isinstance(text, str) and (within, name, text) not in self._tried:
                self._tried.append((within, name, text))
                within[name] = {}
                self.last = (within, name)
                return True
        return False


def _objects(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield value
    for one in value.values():
        if isinstance(one, dict):
            yield from _objects(one)


def options_for(
    source: FunctionSource, payload: Mapping[str, Any], tables: Mapping[str, TableSchema]
) -> dict[str, Any]:
    """Return what `explore` needs to know of a source: its first event, and the rules by which it comes again."""
    text = json.dumps(payload)
    if source.kind in QUEUES:
        return {"messages": [_body(source, payload)], "fifo": source.kind == FIFO}
    options = {"event": event_of(source, payload, tables), **rules_of(source)}
    if source.kind == S3:
        options["objects"] = {source.physical: {FIRST_OBJECT: text}}
    if source.kind == BUS and options["event"]["source"] == "aws.s3":
        detail = options["event"]["detail"]
        options["objects"] = {detail["bucket"]["name"]: {detail["object"]["key"]: text}}
    return options


def rules_of(source: FunctionSource) -> dict[str, Any]:
    """Return how a source delivers again.

    An asynchronous invocation is tried three times. A shard, and a state machine, invoke nothing twice at a time: an
    event comes again only after a failure. An API's client, and an EventBridge rule, may send twice.
    """
    if source.kind in (*STREAMS, TASK):
        return {"fifo": True}
    if source.kind in ASYNCHRONOUS:
        return {"receives": ASYNCHRONOUS_ATTEMPTS, "visibility": RETRIES_S}
    return {}


def in_one_batch(
    source: FunctionSource, payload: Mapping[str, Any], tables: Mapping[str, TableSchema], *, splits: bool
) -> list[dict[str, Any]]:
    """Return what `explore` needs to know of two different records in one delivery: with one fault, then with one for each.

    They come again one by one, unless they are of a stream whose batches Lambda does not split. There the first
    exploration compares the batch, without a fault, with two deliveries of one record.
    """
    second = _other(payload)
    if source.kind in QUEUES:
        messages = [_body(source, one, number) for number, one in enumerate((payload, second), 1)]
        return [{"messages": messages, "batch": 2, "copies": 1, "faults": faults} for faults in (1, 2)]
    records = [event_of(source, one, tables, number)["Records"][0] for number, one in enumerate((payload, second), 1)]
    event = {"Records": records}
    if splits:
        return [{"event": event, "faults": faults} for faults in (1, 2)]
    return [
        {"event": event, "faults": 0, "bisects": True, "fifo": False, "copies": 1},
        {"event": event, "faults": 1},
    ]


def _other(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload of the same form whose values are all others: `Payload` makes texts that end in -1, and ones."""
    return {
        name: _other(value) if isinstance(value, Mapping) else _other_leaf(value) for name, value in payload.items()
    }


def _other_leaf(value: str | int) -> str | int:
    return f"{value.removesuffix('-1')}-2" if isinstance(value, str) else value + 1


def event_of(
    source: FunctionSource, payload: Mapping[str, Any], tables: Mapping[str, TableSchema], number: int = 1
) -> Any:
    """Return one event as its source sends it, with the payload where a producer's own words stand.

    `number`: the record's place in its stream.
    """
    if source.kind == DYNAMODB:
        return {"Records": [_row_inserted(source, payload, tables, number)]}
    if source.kind == KINESIS:
        return {"Records": [_kinesis(source, payload, number)]}
    made = _EVENTS.get(source.kind)
    return made(source, payload) if made else dict(payload)


def _arn(service: str, name: str) -> str:
    return f"arn:aws:{service}:{':'.join(_AT)}:{name}"


def _body(source: FunctionSource, payload: Mapping[str, Any], number: int = 1) -> str:
    """Return the body of a queue's message: the payload, or a topic's notification that holds it."""
    return json.dumps(payload if source.topic is None else _published(source.topic, payload, number))


def _published(topic: str, payload: Mapping[str, Any], number: int = 1) -> dict[str, Any]:
    return {
        "Type": "Notification",
        "MessageId": f"11111111-0000-4000-8000-00000000000{number}",
        "TopicArn": _arn("sns", topic),
        "Message": json.dumps(payload),
        "Timestamp": _TIME,
    }


def _notification(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    notification = {**_published(source.physical, payload), "Subject": None, "MessageAttributes": {}}
    return {"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": notification}]}


def _object_created(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": _AT[0],
        "eventTime": _TIME,
        "eventName": "ObjectCreated:Put",
        "s3": {
            "bucket": {"name": source.physical, "arn": f"arn:aws:s3:::{source.physical}"},
            "object": {"key": FIRST_OBJECT, "size": 2, "eTag": "99914b932bd37a50b983c5e7c90ae93b", "sequencer": "01"},
        },
    }
    return {"Records": [record]}


def _scheduled(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule's own constant input, or the event of a schedule."""
    targets = source.settings.get("Targets", source.settings.get("Target", {}))
    target = targets[0] if isinstance(targets, list) else targets
    with suppress(TypeError, ValueError):
        return {**json.loads(source.settings.get("Input", target.get("Input"))), **payload}
    return {**_envelope("aws.events", "Scheduled Event"), "detail": dict(payload)}


def _envelope(source: str, detail_type: str) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "22222222-0000-4000-8000-000000000002",
        "source": source,
        "detail-type": detail_type,
        "account": _AT[1],
        "time": _TIME,
        "region": _AT[0],
        "resources": [],
    }


def _bus(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event that the rule's pattern matches, as far as the pattern lists values, prefixes and suffixes."""
    pattern = source.settings.get("Pattern", source.settings.get("EventPattern", {}))
    pattern = pattern if isinstance(pattern, Mapping) else {}
    event = _envelope(_first(pattern.get("source"), "app"), _first(pattern.get("detail-type"), "Event"))
    detail = _matching(pattern.get("detail", {}))
    detail = detail if isinstance(detail, dict) else {}
    if event["source"] == "aws.s3":
        detail = {**detail, "bucket": {"name": _BUCKET, **detail.get("bucket", {})}}
        detail["object"] = {"key": FIRST_OBJECT, "size": 2, **detail.get("object", {})}
    return {**event, "detail": {**detail, **payload}}


def _first(listed: Any, otherwise: str) -> str:
    first = listed[0] if isinstance(listed, list) and listed else otherwise
    return first if isinstance(first, str) else otherwise


def _matching(pattern: Any) -> Any:
    if isinstance(pattern, Mapping):
        return {name: _matching(one) for name, one in pattern.items() if not name.startswith("$")}
    first = pattern[0] if isinstance(pattern, list) and pattern else ""
    if isinstance(first, Mapping):
        before, after = (first.get(name, "") for name in ("prefix", "suffix"))
        return f"{before}first{after}" if isinstance(before, str) and isinstance(after, str) else ""
    return first


def _http_1(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    path, method = (
        source.settings.get("Path", "/"),
        _method(source.settings.get("Method", source.settings.get("HttpMethod"))),
    )
    identity = {"sourceIp": "192.0.2.1", "userAgent": "client"}
    return {
        "resource": path,
        "path": _concrete(path),
        "httpMethod": method,
        "headers": {"content-type": "application/json"},
        "multiValueHeaders": {"content-type": ["application/json"]},
        "queryStringParameters": None,
        "pathParameters": _path_parameters(path),
        "stageVariables": None,
        "requestContext": {
            "accountId": _AT[1],
            "requestId": "33333333-0000-4000-8000-000000000003",
            "httpMethod": method,
            "resourcePath": path,
            "path": _concrete(path),
            "protocol": "HTTP/1.1",
            "requestTime": "05/Jan/2026:09:00:00 +0000",
            "requestTimeEpoch": 1_767_603_600_000,
            "stage": "explored",
            "identity": identity,
        },
        "body": json.dumps(payload),
        "isBase64Encoded": False,
    }


def _http_2(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    path, method = source.settings.get("Path", "/"), _method(source.settings.get("Method"))
    return {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": _concrete(path),
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "pathParameters": _path_parameters(path) or {},
        "requestContext": {
            "accountId": _AT[1],
            "requestId": "33333333-0000-4000-8000-000000000003",
            "http": {"method": method, "path": _concrete(path), "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            "stage": "$default",
            "time": "05/Jan/2026:09:00:00 +0000",
            "timeEpoch": 1_767_603_600_000,
        },
        "body": json.dumps(payload),
        "isBase64Encoded": False,
    }


_SOCKET_EVENTS = {"$connect": "CONNECT", "$disconnect": "DISCONNECT"}


def _socket(source: FunctionSource, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a WebSocket API sends for a route. A message's body has the payload, and connections have headers."""
    route = source.name or "$default"
    kind = _SOCKET_EVENTS.get(route, "MESSAGE")
    event: dict[str, Any] = {
        "requestContext": {
            "routeKey": route,
            "eventType": kind,
            "messageDirection": "IN",
            "connectionId": "L0SM9cOFvHcCIhw=",
            "connectedAt": 1_767_603_600_000,
            "requestId": "33333333-0000-4000-8000-000000000003",
            "extendedRequestId": "JKJaXmPLvHcESHA=",
            "requestTime": "05/Jan/2026:09:00:00 +0000",
            "requestTimeEpoch": 1_767_603_600_000,
            "domainName": f"a1b2c3d4e5.execute-api.{_AT[0]}.amazonaws.com",
            "apiId": "a1b2c3d4e5",
            "stage": "explored",
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "client"},
        },
        "isBase64Encoded": False,
    }
    return {**event, **({"body": json.dumps(payload)} if kind == "MESSAGE" else {"headers": {}})}


def _method(given: Any) -> str:
    method = str(given or "POST").upper()
    return "POST" if method in ("ANY", "*") else method


def _path_parameters(path: str) -> dict[str, str] | None:
    return {name.rstrip("+"): f"{name.rstrip('+')}-1" for name in re.findall(r"\{([^}]+)\}", path)} or None


def _concrete(path: str) -> str:
    return re.sub(r"\{([^}]+)\}", lambda found: f"{found[1].rstrip('+')}-1", path)


def _row_inserted(
    source: FunctionSource, payload: Mapping[str, Any], tables: Mapping[str, TableSchema], number: int
) -> dict[str, Any]:
    schema = tables.get(source.physical)
    kinds = {name: schema.types.get(name, "S") for name in schema.keys} if schema else {}
    keys = {name: {kind: str(number) if kind == "N" else f"{name}-{number}"} for name, kind in kinds.items()}
    plain = {name: {"N": str(one)} if isinstance(one, int) else {"S": str(one)} for name, one in payload.items()}
    return {
        "eventID": f"4444444400004000800000000000000{3 + number}",
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventSourceARN": _arn("dynamodb", f"table/{source.physical}/stream/2026-01-01T00:00:00.000"),
        "awsRegion": _AT[0],
        "dynamodb": {
            "Keys": keys,
            "NewImage": {**plain, **keys},
            "SequenceNumber": f"10000000000000000000{number}",
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    }


def _kinesis(source: FunctionSource, payload: Mapping[str, Any], number: int) -> dict[str, Any]:
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
            "data": base64.b64encode(json.dumps(payload).encode()).decode(),
            "approximateArrivalTimestamp": 1_767_603_600.0,
        },
    }


_EVENTS: Mapping[str, Callable[[FunctionSource, Mapping[str, Any]], dict[str, Any]]] = {
    **{SNS: _notification, S3: _object_created, BUS: _bus, SCHEDULE: _scheduled},
    **{HTTP_1: _http_1, HTTP_2: _http_2, URL: _http_2, SOCKET: _socket},
}
