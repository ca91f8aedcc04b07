"""The account as a function from world to world, and the faults of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from oneslot.explorer.faults import _LOST as LOST
from oneslot.explorer.faults import (
    CRASHES,
    READS,
    THROTTLED,
    TIMED_OUT,
    Choice,
)
from oneslot.explorer.handlers.aws import OWN, from_text, to_text
from oneslot.explorer.handlers.process import DRAW
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.answers import UnsupportedRequest
from oneslot.explorer.services.contents import Table
from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from oneslot.explorer.services.stand_in import Account, perform
from oneslot.explorer.world import Request, World

STATE, EFFECT = "state", "effect"
_READING = ("get_", "list_", "describe_", "query", "scan", "head_", "batch_get")

REFUSED_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "batch_write_item": lambda parameters: {"UnprocessedItems": parameters["RequestItems"]},
    "send_message_batch": lambda parameters: {
        "Successful": [],
        "Failed": [
            {"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in parameters["Entries"]
        ],
    },
}
"""The answers with which a batch succeeds and does nothing. A handler that does not read them loses messages."""


@dataclass(frozen=True)
class AccountServices:
    """The services of an account with these tables; see `oneslot.explorer.world.Services`. `high`: how numbers are drawn."""

    tables: Mapping[str, Table]
    answers: Mapping[str, Any] = field(default_factory=dict)
    high: bool = False

    def __call__(self, world: World, request: Request, now: int, conflict: int | None = None) -> tuple[World, str]:
        """Perform a call. Raises `NotExplorable` for what the stand-ins do not model."""
        name, parameters = from_text(request.text)
        if name == DRAW:
            return world, to_text({"answer": {"high": self.high}})
        service, _, operation = name.rpartition(".")
        if not service:
            service, operation = OWN["message" in name or "queue" in name], name
        state: dict[str, dict[str, Any]] = {}
        for container, key, value in world.lines(STATE):
            state.setdefault(container, {})[key] = from_text(value)
        effects = [from_text(value) for _, _, value in world.lines(EFFECT)]
        account = Account(now, self.tables, world.contents(self.tables), world.queues, state, effects, self.answers)
        try:
            if conflict is not None:
                InMemoryDynamoDB(lambda: now, self.tables, account.contents).refuse_for_conflict(conflict, **parameters)
            answer = perform(account, service, operation, parameters)
        except ClientError as error:
            return world, to_text({"error": error.response})
        except UnsupportedRequest as error:
            raise NotExplorable(f"{service}.{operation}: {error}") from error
        others = [
            [STATE, container, key, to_text(value)]
            for container, values in account.state.items()
            for key, value in values.items()
        ]
        others += [[EFFECT, one["service"], "", to_text(one)] for one in account.effects]
        return World.of(account.contents, account.sent, {}, others), to_text({"answer": answer})


def handler_faults(request: Request) -> tuple[Choice, ...]:
    """Return what may become of a call: one fault of each kind that a handler can tell apart."""
    name, parameters = from_text(request.text)
    operation = name.rpartition(".")[2]
    if name == DRAW:
        return (Choice("drawn high", seen="answered", observation=to_text({"answer": {"high": True}}), is_fault=False),)
    if operation in READS or operation.startswith(_READING):
        return (CRASHES[0], THROTTLED)
    own: tuple[Choice, ...] = ()
    if name == "transact_write_items":
        own = (Choice("TransactionConflict at item 1", "never", conflict=0),)
    elif name in REFUSED_PARTS:
        refused = to_text({"answer": REFUSED_PARTS[name](parameters)})
        own = (Choice("answered with all of it refused", "never", observation=refused),)
    return (*CRASHES, *LOST, THROTTLED, TIMED_OUT, *own)


def effects_of(world: World) -> list[dict[str, Any]]:
    """Return what left the account: recorded effects, and messages sent to queues."""
    recorded = [from_text(value) for _, _, value in world.lines(EFFECT)]
    sent = [
        {"service": "sqs", "operation": "send_message", "target": queue.rpartition("/")[2], "parameters": dict(message)}
        for queue, messages in world.queues.items()
        for message in messages
    ]
    return sorted([*recorded, *sent], key=lambda one: json.dumps(one, sort_keys=True, default=repr))
