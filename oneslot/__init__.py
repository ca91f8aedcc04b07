"""Exactly-once effects from a queue that delivers at least once.

`from oneslot import ...` has every name that a consumer needs. Those that need boto3 or asyncio are imported when they are
first used, which keeps a cold start short. What needs an extra is imported from its module: `oneslot.runtime.powertools`,
`oneslot.runtime.stores.valkey`, `oneslot.cdk`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oneslot.runtime import envelopes
from oneslot.runtime.attempt import attempt
from oneslot.runtime.claims import on_release
from oneslot.runtime.effects import (
    Check,
    Delete,
    Effects,
    InvalidEffects,
    Once,
    Put,
    Raw,
    Send,
    Unprocessable,
    Update,
    conflict,
)
from oneslot.runtime.identity import Identity
from oneslot.runtime.protocol import (
    Answer,
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    JsonMessage,
    Message,
    Outcome,
    Store,
    Taken,
)
from oneslot.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    from oneslot.runtime.consumer.consumer import Consumer
    from oneslot.runtime.consumer.queues import Queues
    from oneslot.runtime.consumer.record import Delivery
    from oneslot.runtime.handlers import Locked, LockLost, acquire, make_handler_idempotent, mark_processed, release
    from oneslot.runtime.lambda_consumer import consumer_from_environment, ledger_from_environment
    from oneslot.runtime.sqs.producer import Accepted, NotAccepted, Outgoing, Producer
    from oneslot.runtime.stores.dynamodb import DynamoDBLedger
    from oneslot.runtime.stores.memory import MemoryLedger
    from oneslot.runtime.typed import typed
    from oneslot.runtime.unknown_outcome import NOT_DONE, UNKNOWN, Done, again, ask, performing, set_aside
    from oneslot.runtime.values import from_attributes

__version__ = "0.1.0"

__all__ = [
    "NOT_DONE",
    "UNKNOWN",
    "Accepted",
    "Answer",
    "Busy",
    "Check",
    "Claim",
    "Committed",
    "Conflict",
    "Consumer",
    "Delete",
    "Delivery",
    "Done",
    "Duplicate",
    "DynamoDBLedger",
    "Effects",
    "Exists",
    "Fenced",
    "Identity",
    "InvalidEffects",
    "JsonMessage",
    "LockLost",
    "Locked",
    "MemoryLedger",
    "Message",
    "NotAccepted",
    "Once",
    "Outcome",
    "Outgoing",
    "Producer",
    "Put",
    "Queues",
    "Raw",
    "Send",
    "Store",
    "Surroundings",
    "Taken",
    "Unprocessable",
    "Update",
    "acquire",
    "again",
    "ask",
    "attempt",
    "conflict",
    "consumer_from_environment",
    "envelopes",
    "from_attributes",
    "ledger_from_environment",
    "make_handler_idempotent",
    "mark_processed",
    "on_release",
    "performing",
    "release",
    "set_aside",
    "typed",
]

_ON_FIRST_USE = {
    "Accepted": "sqs.producer",
    "Consumer": "consumer.consumer",
    "Delivery": "consumer.record",
    "DynamoDBLedger": "stores.dynamodb",
    "LockLost": "handlers",
    "Locked": "handlers",
    "MemoryLedger": "stores.memory",
    "NotAccepted": "sqs.producer",
    "Outgoing": "sqs.producer",
    "Producer": "sqs.producer",
    "Queues": "consumer.queues",
    "acquire": "handlers",
    "consumer_from_environment": "lambda_consumer",
    "from_attributes": "values",
    "ledger_from_environment": "lambda_consumer",
    "make_handler_idempotent": "handlers",
    "mark_processed": "handlers",
    "release": "handlers",
    "typed": "typed",
    **dict.fromkeys(("NOT_DONE", "UNKNOWN", "Done", "again", "ask", "performing", "set_aside"), "unknown_outcome"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'oneslot' has no attribute {name!r}")
    return getattr(import_module(f"oneslot.runtime.{_ON_FIRST_USE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
