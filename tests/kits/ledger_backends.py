"""The services in whose place the prover puts its port: moto, as a function from world to world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from botocore.exceptions import ClientError
from moto import mock_aws

from oneslot.explorer.services.dynamodb import TOKEN_WINDOW_MS, Contents
from oneslot.explorer.world import TABLES, Request, Services, World, answer_text, count_claim, error_text, port_services
from tests.kits.consumer import create_tables, session


@contextmanager
def moto_services() -> Iterator[Services]:
    """moto's DynamoDB, filled with a world before each call and read back after it.

    Two things come from the port, because moto has neither: the memory of transactions' tokens (it ignores them, and
    would perform a repeated transaction again), and a conflict with another transaction (it runs one at a time). SQS is
    the port's, too: what an exploration keeps of it is the messages as they were sent.
    """
    with mock_aws():
        client = session().client("dynamodb")
        create_tables(client)
        held: dict[str, dict[str, Any]] | None = None  # what moto's tables hold, if it is known

        def perform(world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
            nonlocal held
            operation, parameters = request.parts
            if conflict is not None or not hasattr(client, operation):
                return port_services(world, request, now, conflict)
            contents, claims = world.contents, dict(world.claims)
            token = parameters.get("ClientRequestToken")
            if token in contents.tokens and now < contents.tokens[token][0] + TOKEN_WINDOW_MS:
                return port_services(world, request, now)
            _fill(client, _read(client) if held is None else held, contents)
            held = None
            try:
                answer = getattr(client, operation)(**parameters)
            except ClientError as error:
                return world, error_text(_shape(error.response))
            count_claim(claims, operation, parameters)
            held = _read(client)
            after = Contents(deepcopy(held), contents.tokens)
            if token is not None:
                after.tokens[token] = (now, json.dumps(parameters, sort_keys=True))
            return World.of(after, world.queues, claims), answer_text(_shape(answer))

        yield perform


def _fill(client: Any, held: dict[str, dict[str, Any]], contents: Contents) -> None:
    """Make moto's tables, which hold that, hold these contents."""
    for name, items in held.items():
        for key, item in items.items():
            if key not in contents.tables[name]:
                client.delete_item(TableName=name, Key={part: item[part] for part in TABLES[name].keys})
        for key, item in contents.tables[name].items():
            if items.get(key) != item:
                client.put_item(TableName=name, Item=item)


def _read(client: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {table.key_text(item): item for item in client.scan(TableName=name)["Items"]}
        for name, table in TABLES.items()
    }


def _shape(response: Any) -> dict[str, Any]:
    """The response as the port words it: the same fields, one wording of messages, the same metadata."""
    shaped = json.loads(json.dumps({name: value for name, value in response.items() if name != "message"}))
    if "Error" in shaped:
        shaped["Error"] = {"Code": shaped["Error"]["Code"]}
        shaped.pop("ResponseMetadata", None)
        for reason in shaped.get("CancellationReasons", ()):
            reason.pop("Message", None)
            if not reason.get("Item"):
                reason.pop("Item", None)
    else:
        shaped["ResponseMetadata"] = {"HTTPStatusCode": 200}
        # Of UPDATED_NEW moto tells what has another value now, and the key of a new item; the code reads the count.
        if "Attributes" in shaped:
            shaped["Attributes"] = {"consumption_count": shaped["Attributes"]["consumption_count"]}
        shaped.pop("ConsumedCapacity", None)
        shaped.pop("ItemCollectionMetrics", None)
    return dict(shaped)


def without_messages(services: Services) -> Services:
    """The same services, their errors without wording: two services seldom use the same words."""

    def perform(world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
        after, text = services(world, request, now, conflict)
        observation = json.loads(text)
        if "error" in observation:
            return after, error_text(_shape(observation["error"]))
        return after, answer_text(_shape(observation["answer"]))

    return perform
