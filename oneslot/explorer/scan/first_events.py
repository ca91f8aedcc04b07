"""A first event for each kind of source, and how it comes again.

A template does not say what a body holds. So the open places begin empty and grow by what the handler asks: see `growth`.
"""

import copy
import json
import re
from base64 import b64decode
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.asked import Asked, At, Place, Places, value_at
from oneslot.explorer.handlers.scenario import Direct
from oneslot.explorer.handlers.templates import sources
from oneslot.explorer.handlers.templates.sources import FunctionSource, chain
from oneslot.explorer.scan.events import (
    ANY_PATH,
    AUTHORIZERS,
    PLACES,
    Facts,
    Tables,
    attributes,
    event_of,
    is_raw,
    keys_of,
    matching,
    nth,
    stored_by,
    varied,
    written,
)
from oneslot.explorer.services.account import operations, services

NULL_PLACES = ("query", At.AUTHORIZER, At.OLD, "stage")
"""The places that an event does not have, or has as null, while they are empty."""
RETRIES_S = 60
"""The seconds before Lambda's first retry of an asynchronous invocation."""
ASYNCHRONOUS_ATTEMPTS = 3
"""An asynchronous invocation and its two retries: Lambda, "Understanding retry behavior"."""
RETRIES = "MaximumRetryAttempts of EventInvokeConfig"
"""The setting of a source that names its function's retries."""
IN_ONE_BATCH = "in one batch"
Edit = tuple[Place, Any]
Pair = tuple[str, dict[str, Any]]
"""What two events have in common, for people, and what `explore` needs to know of them."""

MOST_LEVELS = 7
_ENDS = (
    *("SUCCEEDED", "SUCCESSFUL", "SUCCESS", "COMPLETED", "COMPLETE", "FINISHED", "DONE", "ACTIVE", "AVAILABLE"),
    *("READY", "INSERVICE", "CREATED", "DEPLOYED", "ENABLED", "ISSUED", "RUNNING"),
)
"""The states in which waiting code goes on, in capitals."""
_OF_PAGES = re.compile(r"(next|continuation|page|pagination)\w*token|marker|truncated|more|^next", re.IGNORECASE)
"""The names of an answer that has a next page."""
_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj"
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Size 4/Root 1 0 R>>\nstartxref\n0\n%%EOF"
)
_PNG = b64decode(b"iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAAAAACMmsGiAAAAC0lEQVR4nGNgwAQAABQAAX3+Hu4AAAAASUVORK5CYII=")
_FILES = {"pdf": _PDF, **dict.fromkeys(("png", "jpg", "jpeg"), _PNG)}
"""An empty page, and a grey picture: libraries read a picture by its content, whatever its name is."""
_SIMPLE: dict[str, Any] = {"map": {}, "blob": b"content-1", "boolean": True}
"""Values of other types than numbers."""


def first_facts(source: FunctionSource) -> Facts:
    """Return what the template says of a first event: its filters, and how its API knows its client."""
    facts: Facts = {At.PAYLOAD: {}}
    if source.auth:
        facts[At.AUTHORIZER] = AUTHORIZERS[source.auth]
    for one in chain(source):
        filters = one.settings.get("FilterCriteria", {}).get("Filters", [])
        with suppress(TypeError, ValueError, AttributeError, LookupError):
            pattern = filters[0]["Pattern"]
            pattern = json.loads(pattern) if isinstance(pattern, str) else pattern
            row = pattern.get("dynamodb", {}).get("NewImage", {})
            image = {name: matching(next(iter(typed.values()))) for name, typed in row.items()}
            facts[At.PAYLOAD] = matching(pattern.get("body", pattern.get("data", {}))) or image
            if "eventName" in pattern:
                facts["eventName"] = matching(pattern["eventName"])
        if one.kind == sources.SNS and isinstance(policy := one.settings.get("FilterPolicy"), Mapping):
            is_of_body = one.settings.get("FilterPolicyScope") == "MessageBody"
            facts[At.PAYLOAD if is_of_body else At.ATTRIBUTES] = matching(policy)
    return facts


def asked_of(source: FunctionSource, facts: Facts) -> Asked:
    """Return what notes the questions to a made event: a route of any method or path leaves these to the client."""
    places, is_first = dict(PLACES.get(source.kind, {})), source.kind == sources.HTTP_1
    if source.kind in (sources.HTTP_1, sources.HTTP_2, sources.URL):
        if source.settings.get("Method", "ANY") in ("ANY", "*"):
            places[("httpMethod",) if is_first else ("requestContext", "http", "method")] = At.METHOD
        if "+}" in source.settings.get("Path", ANY_PATH):
            places[("path",) if is_first else ("rawPath",)] = At.PATH
    texts: dict[str, Places] = {json.dumps(facts[At.PAYLOAD]): {(): At.PAYLOAD}}
    for one in list(chain(source))[1:]:
        if one.kind not in sources.QUEUES:
            texts.setdefault(
                written(one, facts), PLACES[one.kind] if one.kind in (sources.BUS, sources.SCHEDULE) else {}
            )
    texts |= {json.dumps(body): {(): name} for name, body in facts.items() if "://" in name}
    return Asked(facts, places, texts)


def options_for(source: FunctionSource, facts: Facts, tables: Tables, second: Facts | None = None) -> dict[str, Any]:
    """Return what `explore` needs to know of a source: its first event, and the rules by which it comes again.

    `second`: another event, beside whose rows and object the first one's exist.
    """
    every, objects = [facts, *([second] if second is not None else [])], dict(facts.get(At.OBJECTS, {}))
    for one in every:
        if stored := stored_by(source, one):
            bucket, key = stored
            objects[bucket] = {**objects.get(bucket, {}), key: content_of(key, one)}
    options: dict[str, Any] = {
        kind: {name: json.dumps(one) if isinstance(one, dict) else one for name, one in facts.get(place, {}).items()}
        for kind, place in (("parameters", At.SSM), ("secrets", At.SECRETS))
    }
    if objects:
        options["objects"] = objects
    answers = {name: {"status": 200, "body": body} for name, body in facts.items() if "://" in name}
    if answers := {**facts.get(At.ANSWERS, {}), **answers}:
        options["answers"] = answers
    if facts.get(At.TABLES):
        for name, kinds in facts[At.TABLES].items():
            partition_key, sort_key = [*kinds, ""][:2]
            tables = {**tables, name: TableSchema(partition_key, sort_key, types=kinds)}
        options["tables"] = tables
    if facts.get(At.ROWS):
        options["rows"] = {
            table: [
                keys_of(tables.get(table), n) | (varied(row, n) if n > 1 else row)
                for n in map(nth, every)
                for row in rows
            ]
            for table, rows in facts[At.ROWS].items()
        }
    if source.kind in sources.QUEUES:
        return {"messages": [_message(source, one) for one in every], "fifo": source.kind == sources.FIFO, **options}
    events, options = [event_of(source, one, tables) for one in every], {**rules_of(source), **options}
    if source.kind in sources.STREAMS:
        return {"event": {"Records": [record for one in events for record in one["Records"]]}, **options}
    if second is None:
        return {"event": events[0], **options}
    return {"event": None, "messages": [Direct(str(n), json.dumps(one)) for n, one in enumerate(events)], **options}


def content_of(key: str, facts: Facts) -> bytes | str:
    """Return what an object holds, by its key's ending: JSON, lines of JSON, a table with one row, a picture, a page."""
    ending = key.rpartition(".")[2].lower()
    if ending in _FILES:
        return _FILES[ending]
    if ending in ("csv", "tsv"):
        columns = facts.get(At.COLUMNS) or {"id": "id-1", "name": "name-1"}
        separator = "," if ending == "csv" else "\t"
        return "\n".join(separator.join(map(str, one)) for one in (columns, columns.values())) + "\n"
    if ending in ("txt", "md", "log"):
        return "text-1\n"
    return f"{json.dumps(facts[At.PAYLOAD])}\n" if ending in ("jsonl", "ndjson") else json.dumps(facts[At.PAYLOAD])


def rules_of(source: FunctionSource) -> dict[str, Any]:
    """Return how a source delivers again.

    An asynchronous invocation is tried three times. A shard, and a state machine, invoke nothing twice at a time: an
    event comes again only after a failure. An API's client, an EventBridge rule and a user pool may send twice.
    """
    if source.kind in (*sources.STREAMS, sources.TASK):
        return {"fifo": True}
    if source.kind in sources.ASYNCHRONOUS:
        retries = source.settings.get(RETRIES)
        attempts = ASYNCHRONOUS_ATTEMPTS if retries is None else int(retries) + 1
        return {"receives": attempts, "visibility": RETRIES_S}
    return {}


def other_of(source: FunctionSource, facts: Facts, fixed: Container[Place] = ()) -> tuple[Facts, list[Edit]]:
    """Return the next event of a source, which has ids of its own and tells of another object, and what may differ, too.

    `fixed`: the places whose values the template gives. It gives an authorizer's form, and not its client.
    """
    stored = stored_by(source, facts)
    folder, slash, name = stored[1].rpartition("/") if stored else ("", "", "")
    key = name.replace("first", "second", 1) if "first" in name else f"2-{name}"
    other = {**facts, **({At.KEY: f"{folder}{slash}{key}"} if stored else {}), At.NTH: 2}
    if names := re.findall(r"\{(\w+)\}", str(source.settings.get("Path", ""))) if At.PATH not in facts else ():
        other[At.PARAMETERS] = {**{name: f"{name}-1" for name in names}, **facts.get(At.PARAMETERS, {})}
    differing = (At.PAYLOAD, "query", "headers", At.ATTRIBUTES, At.AUTHORIZER, At.IDENTITY, At.PARAMETERS, At.PATH)
    places = [at for place in differing for at in leaves(other.get(place), (place,))]
    varies = [(at, varied(value_at(other, at), 2)) for at in places if at not in fixed or at[0] == At.AUTHORIZER]
    return other, [(at, new) for at, new in varies if new != value_at(other, at)]


def pairs_of(
    source: FunctionSource, facts: Facts, met: Sequence[tuple[str, Facts]], tables: Tables, splits: bool | None
) -> Iterator[Pair]:
    """Yield two events of which each may come again: that meet, then that share nothing and are in one batch.

    Every source may send an event twice, and promises no order of two:
    - SQS: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
    - S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html
    - all that is asynchronous: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html

    A FIFO group and a shard have an order, and meet in one batch; two groups have messages of one body. A batch comes
    again one by one, unless it is of a stream and Lambda does not split it. Then the first exploration compares the batch,
    without a fault, with two deliveries. `splits`: whether Lambda splits a batch; None without batches.
    """

    def pair(second: Facts, **more: Any) -> dict[str, Any]:
        return {**options_for(source, facts, tables, second), "copies": 1, "faults": 1, "batch": 1, **more}

    (other, _), has_order = other_of(source, facts), source.kind in (sources.FIFO, *sources.STREAMS)
    if source.kind == sources.FIFO:
        first, same = pair(other)["messages"]
        same = {**(same if isinstance(same, dict) else {"body": same}), "attributes": {"MessageGroupId": "2"}}
        yield "of two groups", pair(other, messages=[first, same])
    for where, one in met:
        if not has_order:
            yield where, pair(one)
        elif splits is not None:
            yield IN_ONE_BATCH, pair(one, batch=2)
    ways: list[dict[str, Any]] = [{}, {"faults": 2}]
    if source.kind in sources.STREAMS and not splits:
        ways = [{"faults": 0, "bisects": True, "fifo": False}, {}]
    for way in ways if splits is not None else ():
        yield IN_ONE_BATCH, pair({**other, At.PAYLOAD: varied(facts[At.PAYLOAD], 2)}, **{"batch": 2, **way})


def _message(source: FunctionSource, facts: Facts) -> Any:
    """Return a message of a queue: its body, or a record if it has attributes."""
    body = json.dumps(facts[At.PAYLOAD]) if source.feed is None else written(source.feed, facts)
    if not facts.get(At.ATTRIBUTES) or not (source.feed is None or is_raw(source.feed)):
        return body
    return {"body": body, "messageAttributes": attributes(facts[At.ATTRIBUTES])}


def assumed_of(facts: Facts) -> Iterator[str]:
    """Yield what was made beside the event, and is not known to be as in the account."""
    values = (f"{kind} {name}" for kind in (At.SSM, At.SECRETS) for name in facts.get(kind, ()))
    made = [*facts.get(At.ANSWERS, {}), *(name for name in facts if "://" in name), *values]
    if made:
        yield f"Made answers: {', '.join(made)}."
    for name, key in facts.get(At.TABLES, {}).items():
        yield f"The table {name} is not in the template: its key is made, {' and '.join(key)}."


def shown(facts: Facts) -> Any:
    """Return what a report shows of the facts: the payload alone where it is all that grew."""
    return facts if [name for name in facts if name not in (At.PAYLOAD, At.AUTHORIZER)] else facts[At.PAYLOAD]


def answer_of(operation: str) -> dict[str, Any] | None:
    """Return an answer of "service.operation" with each member of its shape; None if botocore does not know it."""
    service, _, name = operation.partition(".")
    if service not in services():
        return None
    shape = getattr(operations(service).get(name), "output_shape", None)
    return _value(shape, "", 0) if shape is not None else {}


def _value(shape: Any, name: str, level: int) -> Any:
    match shape.type_name:
        case "structure":
            held = {} if level > MOST_LEVELS else shape.members
            return {one: _value(kind, one, level + 1) for one, kind in held.items() if not _OF_PAGES.search(one)}
        case "list":
            return [_value(shape.member, name, level + 1)] * 2  # a table's first row may be its heading
        case "string":
            ends = [one for end in _ENDS for one in shape.enum if one.upper().replace("_", "") == end]
            return (ends or shape.enum or [f"{name.lower()}-1"])[0]
        case kind:
            return _SIMPLE.get(kind, 1)


def leaves(value: Any, at: Place) -> Iterator[Place]:
    """Yield the places of all values that hold no others."""
    if not isinstance(value, dict | list):
        yield at
    for name, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(one, (*at, name))


def edited(facts: Facts, edits: Sequence[Edit]) -> Facts | None:
    """Return the facts with values put in their places; what holds them becomes an object or a list. None if it cannot."""
    made = copy.deepcopy(facts)
    for at, value in edits:
        within: Any = made
        for step, following in pairwise(at):
            kind: Any = list if isinstance(following, int) else dict
            held = value_at(within, (step,))
            if not isinstance(held, kind):
                held = kind()
                _put(within, step, held)
            within = held
        if not isinstance(at[-1], int if isinstance(within, list) else str):
            return None
        _put(within, at[-1], copy.deepcopy(value))
    return made


def _put(within: Any, step: str | int, value: Any) -> None:
    if isinstance(within, list) and isinstance(step, int) and step >= len(within):
        within.append(value)
    else:
        within[step] = value
