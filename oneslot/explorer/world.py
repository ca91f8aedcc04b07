"""What the services hold, as an immutable value; and the services, as a function from one such value to the next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from botocore.exceptions import ClientError

from oneslot.explorer.services.dynamodb import Contents, InMemoryDynamoDB, Table
from oneslot.explorer.services.sqs import InMemorySQS
from oneslot.runtime.stores.expressions import from_attributes

LEDGER, SLOTS, APPOINTMENTS = "ledger", "slots", "appointments"
QUEUE, DEAD_LETTERS = "https://sqs.example/requests", "https://sqs.example/requests-dead-letters"
TABLES: Mapping[str, Table] = {
    LEDGER: Table("message_id"),
    SLOTS: Table("practice", "slot_id", {"free_slots": "free_key"}),
    APPOINTMENTS: Table("appointment_id"),
}
"""The three tables, as the stack defines them (tests hold the template to the same)."""

TRANSIENT_CONFLICT = "TransactionConflictException"
CLAIMS = "claims"
"""A count kept beside the tables, never seen by the code under test: claims granted, by message id."""


@dataclass(frozen=True, slots=True)
class Request:
    """One API call: boto3's method name and its parameters, as JSON text, so that equal calls are equal."""

    text: str

    @classmethod
    def of(cls, operation: str, parameters: Mapping[str, Any]) -> Request:
        """From a call's name and parameters."""
        return cls(json.dumps([operation, parameters], sort_keys=True))

    @property
    def parts(self) -> tuple[str, dict[str, Any]]:
        """The call's name and parameters."""
        operation, parameters = json.loads(self.text)
        return operation, parameters


@dataclass(frozen=True)
class World:
    """Tables, tokens, queues and claim counts as sorted lines of JSON: comparable, hashable, and renamed as text.

    A line is [kind, container, key, value].
    """

    text: str

    @classmethod
    def of(cls, contents: Contents, queues: Mapping[str, list[Mapping[str, Any]]], claims: Mapping[str, int]) -> World:
        """From what the ports hold."""
        lines: list[list[Any]] = [
            ["item", table, key, item] for table, items in contents.tables.items() for key, item in items.items()
        ]
        lines += [["token", "", token, list(value)] for token, value in contents.tokens.items()]
        lines += [["message", queue, "", message] for queue, messages in queues.items() for message in messages]
        lines += [[CLAIMS, "", message_id, count] for message_id, count in claims.items()]
        return cls("\n".join(sorted(json.dumps(line, sort_keys=True) for line in lines)))

    def _lines(self, kind: str) -> Iterator[tuple[str, str, Any]]:
        for line in self.text.splitlines():
            if line.startswith(f'["{kind}"'):
                _, container, key, value = json.loads(line)
                yield container, key, value

    @property
    def contents(self) -> Contents:
        """What DynamoDB holds."""
        contents = Contents({name: {} for name in TABLES})
        for table, key, item in self._lines("item"):
            contents.tables[table][key] = item
        contents.tokens = {token: (since, request) for _, token, (since, request) in self._lines("token")}
        return contents

    @property
    def queues(self) -> dict[str, list[Mapping[str, Any]]]:
        """What was sent to queues."""
        queues: dict[str, list[Mapping[str, Any]]] = {}
        for queue, _, message in self._lines("message"):
            queues.setdefault(queue, []).append(message)
        return queues

    @cached_property
    def claims(self) -> dict[str, int]:
        """Claims granted, by message id, as the port saw them."""
        return {message_id: count for _, message_id, count in self._lines(CLAIMS)}

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        """Items in plain values, by table and key."""
        rows: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in TABLES}
        for table, key, item in self._lines("item"):
            rows[table][key] = from_attributes(item)
        return rows

    def by(self, table: str, *names: str) -> dict[Any, dict[str, Any]]:
        """A table's rows by the values of these attributes."""
        return {
            row[names[0]] if len(names) == 1 else tuple(row[name] for name in names): row
            for row in self.rows[table].values()
        }

    @cached_property
    def dead_letters(self) -> list[Mapping[str, Any]]:
        """What is in the dead-letter queue."""
        return self.queues.get(DEAD_LETTERS, [])


def answer_text(answer: Mapping[str, Any]) -> str:
    """An observation: the service answered."""
    return json.dumps({"answer": answer}, sort_keys=True)


def error_text(error: Mapping[str, Any]) -> str:
    """An observation: the service answered with an error, in botocore's shape."""
    return json.dumps({"error": error}, sort_keys=True)


UNANSWERED = json.dumps({"unanswered": True})
"""An observation: all of the SDK's attempts went without an answer."""


class Services(Protocol):
    """The services as a function. `conflict` names the item of a transaction that another one holds just then."""

    def __call__(self, world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
        """The world after `request` at `now` (epoch ms), and what the caller observes."""


def port_services(world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
    """The services on the in-memory ports."""
    operation, parameters = request.parts
    contents, queues, claims = world.contents, world.queues, dict(world.claims)
    dynamodb = InMemoryDynamoDB(lambda: now, TABLES, contents)
    answered_before = parameters.get("ClientRequestToken") in contents.tokens
    try:
        if conflict is not None:
            dynamodb.refuse_for_conflict(conflict, **parameters)
        port: Any = dynamodb if hasattr(dynamodb, operation) else InMemorySQS(queues)
        answer = getattr(port, operation)(**parameters)
    except ClientError as error:
        return world, error_text(error.response)
    if not answered_before:
        count_claim(claims, operation, parameters)
    return World.of(contents, queues, claims), answer_text(answer)


def count_claim(claims: dict[str, int], operation: str, parameters: Mapping[str, Any]) -> None:
    """Count a successful write that sets the ledger's fence: that, and nothing else, is a granted claim.

    Either an update sets it, or a transaction puts a row that has one: a first delivery's commit, its own claim.
    """
    claimed = []
    if operation == "update_item" and "claimed_by = " in parameters["UpdateExpression"]:
        claimed = [parameters["Key"]]
    elif operation == "transact_write_items":
        puts = (action["Put"]["Item"] for action in parameters["TransactItems"] if "Put" in action)
        claimed = [item for item in puts if "claimed_by" in item]
    for key in claimed:
        message_id = key.get("message_id", {}).get("S", "")
        claims[message_id] = claims.get(message_id, 0) + 1
