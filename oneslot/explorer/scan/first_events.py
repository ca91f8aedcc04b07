"""A first event for each kind of source, and how it comes again.

A template does not say what a body holds. So the open places begin empty and grow by what the handler asks: see `growth`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.asked import ANSWERS, OBJECTS, ROWS, SECRETS, SSM, TABLES, Asked, Places, Way
from oneslot.explorer.handlers.templates.sources import (
    ASYNCHRONOUS,
    BUS,
    COGNITO,
    FIFO,
    HTTP_1,
    HTTP_2,
    PIPE,
    QUEUES,
    SCHEDULE,
    SNS,
    SOCKET,
    STREAMS,
    TASK,
    URL,
    FunctionSource,
    chain,
)
from oneslot.explorer.scan.events import (
    ANY_PATH,
    ATTRIBUTES,
    AUTHORIZER,
    AUTHORIZERS,
    KEY,
    METHOD,
    OLD,
    PATH,
    PAYLOAD,
    PLACES,
    Facts,
    attributes,
    event_of,
    is_raw,
    matching,
    stored_by,
    varied,
    written,
)
from oneslot.explorer.services.account import operations, services

NULL_PLACES = ("query", AUTHORIZER, OLD, "stage")
"""The places that an event does not have, or has as null, while they are empty."""
KNOWN = (*QUEUES, *STREAMS, *ASYNCHRONOUS, HTTP_1, HTTP_2, URL, SOCKET, TASK, COGNITO, PIPE)
RETRIES_S = 60
"""The seconds before Lambda's first retry of an asynchronous invocation."""
ASYNCHRONOUS_ATTEMPTS = 3
"""An asynchronous invocation and its two retries: Lambda, "Understanding retry behavior"."""
RETRIES = "MaximumRetryAttempts of EventInvokeConfig"
"""The setting of a source that names its function's retries."""
MOST_ALIKE = 4  # messages that differ from the first in one name
COLUMNS = "columns"
"""The fact that names the columns of a table in an object."""

MOST_LEVELS = 7
_ENDS = (
    *("SUCCEEDED", "SUCCESSFUL", "SUCCESS", "COMPLETED", "COMPLETE", "FINISHED", "DONE", "ACTIVE", "AVAILABLE"),
    *("READY", "INSERVICE", "CREATED", "DEPLOYED", "ENABLED", "ISSUED", "RUNNING"),
)
"""The states in which waiting code goes on, in capitals."""
_OF_PAGES = re.compile(r"(next|continuation|page|pagination)\w*token|marker|truncated|more|^next", re.IGNORECASE)
"""The names of an answer that has a next page."""


_SIMPLE: dict[str, Any] = {"map": {}, "blob": b"content-1", "boolean": True}
"""Values of other types than numbers."""


def first_facts(source: FunctionSource) -> Facts:
    """Return what the template says of a first event: its filters, and how its API knows its client."""
    facts: Facts = {PAYLOAD: {}}
    if source.auth:
        facts[AUTHORIZER] = AUTHORIZERS[source.auth]
    for one in chain(source):
        filters = one.settings.get("FilterCriteria", {}).get("Filters", [])
        with suppress(TypeError, ValueError, AttributeError, LookupError):
            pattern = filters[0]["Pattern"]
            pattern = json.loads(pattern) if isinstance(pattern, str) else pattern
            row = pattern.get("dynamodb", {}).get("NewImage", {})
            image = {name: matching(next(iter(typed.values()))) for name, typed in row.items()}
            facts[PAYLOAD] = matching(pattern.get("body", pattern.get("data", {}))) or image
            if "eventName" in pattern:
                facts["eventName"] = matching(pattern["eventName"])
        if one.kind == SNS and isinstance(policy := one.settings.get("FilterPolicy"), Mapping):
            is_of_body = one.settings.get("FilterPolicyScope") == "MessageBody"
            facts[PAYLOAD if is_of_body else ATTRIBUTES] = matching(policy)
    return facts


def open_places(source: FunctionSource) -> Places:
    """Return where a source's event is open: a route of any method or path leaves these to the client."""
    more: dict[Way, str] = {}
    is_first = source.kind == HTTP_1
    if source.kind in (HTTP_1, HTTP_2, URL) and source.settings.get("Method", "ANY") in ("ANY", "*"):
        more[("httpMethod",) if is_first else ("requestContext", "http", "method")] = METHOD
    if source.kind in (HTTP_1, HTTP_2, URL) and "+}" in source.settings.get("Path", ANY_PATH):
        more[("path",) if is_first else ("rawPath",)] = PATH
    return {**PLACES.get(source.kind, {}), **more}


def asked_of(source: FunctionSource, facts: Facts) -> Asked:
    """Return what notes the questions to a made event."""
    texts: dict[str, Places] = {json.dumps(facts[PAYLOAD]): {(): PAYLOAD}}
    for one in list(chain(source))[1:]:
        if one.kind not in QUEUES:
            texts.setdefault(written(one, facts), PLACES[one.kind] if one.kind in (BUS, SCHEDULE) else {})
    texts |= {json.dumps(body): {(): name} for name, body in facts.items() if "://" in name}
    return Asked(facts, open_places(source), texts)


def options_for(source: FunctionSource, facts: Facts, tables: Mapping[str, TableSchema]) -> dict[str, Any]:
    """Return what `explore` needs to know of a source: its first event, and the rules by which it comes again."""
    objects, stored = dict(facts.get(OBJECTS, {})), stored_by(source, facts)
    if stored is not None:
        bucket, key = stored
        objects[bucket] = {**objects.get(bucket, {}), key: content_of(key, facts)}
    made = {kind: facts.get(kind, {}).items() for kind in (SSM, SECRETS)}
    texts = {
        kind: {name: json.dumps(one) if isinstance(one, dict) else one for name, one in of} for kind, of in made.items()
    }
    options: dict[str, Any] = {"parameters": texts[SSM], "secrets": texts[SECRETS]}
    if objects:
        options["objects"] = objects
    answers = dict(facts.get(ANSWERS, {}))
    answers |= {name: {"status": 200, "body": body} for name, body in facts.items() if "://" in name}
    if answers:
        options["answers"] = answers
    if facts.get(TABLES):
        for name, kinds in facts[TABLES].items():
            partition_key, sort_key = [*kinds, ""][:2]
            tables = {**tables, name: TableSchema(partition_key, sort_key, types=kinds)}
        options["tables"] = tables
    if facts.get(ROWS):
        options["rows"] = {
            table: [_whole(row, tables.get(table), 1) for row in rows] for table, rows in facts[ROWS].items()
        }
    if source.kind in QUEUES:
        return {"messages": [_message(source, facts)], "fifo": source.kind == FIFO, **options}
    return {"event": event_of(source, facts, tables), **rules_of(source), **options}


def content_of(key: str, facts: Facts) -> str:
    """Return what an object holds, by the ending of its key: JSON, lines of JSON, or a table with one row."""
    ending = key.rpartition(".")[2].lower()
    if ending in ("csv", "tsv"):
        columns = facts.get(COLUMNS) or {"id": "id-1", "name": "name-1"}
        separator = "," if ending == "csv" else "\t"
        return "\n".join(separator.join(map(str, one)) for one in (columns, columns.values())) + "\n"
    if ending in ("txt", "md", "log"):
        return "text-1\n"
    return f"{json.dumps(facts[PAYLOAD])}\n" if ending in ("jsonl", "ndjson") else json.dumps(facts[PAYLOAD])


def _whole(row: Mapping[str, Any], schema: TableSchema | None, number: int) -> dict[str, Any]:
    """Return a row with the keys that it lacks."""
    keys = {} if schema is None else {name: schema.types.get(name, "S") for name in schema.keys}
    return {**{name: number if kind == "N" else f"{name}-{number}" for name, kind in keys.items()}, **row}


def rules_of(source: FunctionSource) -> dict[str, Any]:
    """Return how a source delivers again.

    An asynchronous invocation is tried three times. A shard, and a state machine, invoke nothing twice at a time: an
    event comes again only after a failure. An API's client, an EventBridge rule and a user pool may send twice.
    """
    if source.kind in (*STREAMS, TASK):
        return {"fifo": True}
    if source.kind in ASYNCHRONOUS:
        retries = source.settings.get(RETRIES)
        attempts = ASYNCHRONOUS_ATTEMPTS if retries is None else int(retries) + 1
        return {"receives": attempts, "visibility": RETRIES_S}
    return {}


def in_one_batch(
    source: FunctionSource, facts: Facts, tables: Mapping[str, TableSchema], *, splits: bool
) -> list[dict[str, Any]]:
    """Return what `explore` needs to know of two different records in one delivery: with one fault, then with one for each.

    They come again one by one, unless they are of a stream whose batches Lambda does not split. There the first
    exploration compares the batch, without a fault, with two deliveries of one record. Before it two messages that may be
    about one row are in flight: of one body; of two FIFO groups; and in a FIFO group those that differ in one name.
    """
    second = {**facts, PAYLOAD: varied(facts[PAYLOAD], 2)}
    if KEY in facts:
        second[KEY] = f"2-{facts[KEY]}" if "/" not in facts[KEY] else facts[KEY].replace("/", "/2-", 1)
    made = [options_for(source, one, tables) for one in (facts, second)]
    rows = {
        table: [*own, *(_whole(varied(one, 2), tables.get(table), 2) for one in facts[ROWS][table])]
        for table, own in made[0].get("rows", {}).items()
    }
    objects = {bucket: {**made[1]["objects"][bucket], **own} for bucket, own in made[0].get("objects", {}).items()}
    before = {**({"rows": rows} if rows else {}), **({"objects": objects} if objects else {})}
    if source.kind in QUEUES:
        body = facts[PAYLOAD] if source.kind == FIFO and isinstance(facts[PAYLOAD], dict) else {}
        ways = [{**facts, PAYLOAD: {**body, name: varied(value, 2)}} for name, value in body.items()]
        alike = ways[:MOST_ALIKE] if source.kind == FIFO else [facts]
        tried = [*((1, one) for one in alike if one != second), (1, second), (2, second)]
        pairs: list[dict[str, Any]] = [
            {"messages": [_message(source, facts), _message(source, one, 2)], "batch": 1 if one == facts else 2}
            | {"copies": 1, "faults": faults, **before}
            for faults, one in tried
        ]
        if source.kind == FIFO:
            first, alike = _message(source, facts), _message(source, facts, 2)
            other = {**(alike if isinstance(alike, dict) else {"body": alike}), "attributes": {"MessageGroupId": "2"}}
            pairs.insert(0, {**pairs[-2], "messages": [first, other], "batch": 1})
        return pairs
    records = [event_of(source, one, tables, number)["Records"][0] for number, one in enumerate((facts, second), 1)]
    event = {"event": {"Records": records}, **before}
    if splits:
        return [{**event, "faults": faults} for faults in (1, 2)]
    return [{**event, "faults": 0, "bisects": True, "fifo": False, "copies": 1}, {**event, "faults": 1}]


def _message(source: FunctionSource, facts: Facts, number: int = 1) -> Any:
    """Return a message of a queue: its body, or a record if it has attributes."""
    body = json.dumps(facts[PAYLOAD]) if source.feed is None else written(source.feed, facts, number)
    if not facts.get(ATTRIBUTES) or not (source.feed is None or is_raw(source.feed)):
        return body
    return {"body": body, "messageAttributes": attributes(facts[ATTRIBUTES])}


def assumed_of(facts: Facts) -> Iterator[str]:
    """Yield what was made beside the event, and is not known to be as in the account."""
    values = (f"{kind} {name}" for kind in (SSM, SECRETS) for name in facts.get(kind, ()))
    made = [*facts.get(ANSWERS, {}), *(name for name in facts if "://" in name), *values]
    if made:
        yield f"Made answers: {', '.join(made)}."
    for name, key in facts.get(TABLES, {}).items():
        yield f"The table {name} is not in the template: its key is made, {' and '.join(key)}."


def shown(facts: Facts) -> Any:
    """Return what a report shows of the facts: the payload alone where it is all that grew."""
    return facts if [name for name in facts if name not in (PAYLOAD, AUTHORIZER)] else facts[PAYLOAD]


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
