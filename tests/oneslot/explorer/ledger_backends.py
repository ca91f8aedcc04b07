"""moto in place of the explorer's services: a function from one world to the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from botocore.exceptions import ClientError
from moto import mock_aws

from lab.explore.practice import TABLES
from oneslot.explorer.services.contents import Contents
from oneslot.explorer.services.dynamodb import TOKEN_WINDOW_MS
from oneslot.explorer.world import InMemoryServices, Request, Services, World, answer_text, count_claim, error_text
from tests.kits.consumer import create_tables, session


@contextmanager
def moto_services() -> Iterator[Services]:
    """Yield moto's DynamoDB, filled with a world before each call and read after it.

    Transaction tokens, conflicts between transactions and SQS come from the in-memory services, because moto has no tokens
    and runs one transaction at a time.
    """
    with mock_aws():
        client = session().client("dynamodb")
        create_tables(client)
        held: dict[str, dict[str, Any]] | None = None  # the contents of moto's tables, if known
        in_memory = InMemoryServices(TABLES)

        def perform(world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
            nonlocal held
            operation, parameters = request.parts
            if conflict is not None or not hasattr(client, operation):
                return in_memory(world, request, now, conflict)
            contents, claims = world.contents(TABLES), dict(world.claims)
            token = parameters.get("ClientRequestToken")
            if token in contents.tokens and now < contents.tokens[token][0] + TOKEN_WINDOW_MS:
                return in_memory(world, request, now)
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
    """Change moto's tables from what they hold to these contents."""
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
    """Return the response without wording: the fields and the metadata that the in-memory services have, too."""
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
        # For UPDATED_NEW moto returns the changed attributes and the key of a new item; the code reads the count.
        if "Attributes" in shaped:
            shaped["Attributes"] = {"consumption_count": shaped["Attributes"]["consumption_count"]}
        shaped.pop("ConsumedCapacity", None)
        shaped.pop("ItemCollectionMetrics", None)
    return dict(shaped)


def without_messages(services: Services) -> Services:
    """Return the services with errors that have no wording, because two services seldom use the same words."""

    def perform(world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
        after, text = services(world, request, now, conflict)
        observation = json.loads(text)
        if "error" in observation:
            return after, error_text(_shape(observation["error"]))
        return after, answer_text(_shape(observation["answer"]))

    return perform
