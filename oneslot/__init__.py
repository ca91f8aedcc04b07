"""Exactly-once effects from a queue that delivers at least once.

`from oneslot import ...` has every name that a consumer needs. Those that need boto3 or asyncio are imported when they are
first used, which keeps a cold start short. What needs an extra is imported from its module: `oneslot.runtime.powertools`,
`oneslot.runtime.stores.valkey`, `oneslot.cdk`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oneslot.runtime import envelopes
from oneslot.runtime.attempt import attempt, on_release
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
from oneslot.runtime.protocol import (
    Answer,
    Busy,
    Claim,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Message,
    Outcome,
    Store,
    Taken,
)
from oneslot.runtime.record import Delivery, Identity
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.typed import JsonMessage, typed

if TYPE_CHECKING:
    from oneslot.runtime.consumer.consumer import Consumer
    from oneslot.runtime.consumer.queues import Queues
    from oneslot.runtime.handlers import (
        NOT_DONE,
        UNKNOWN,
        Done,
        Locked,
        LockLost,
        acquire,
        again,
        ask,
        make_handler_idempotent,
        mark_processed,
        performing,
        release,
        set_aside,
    )
    from oneslot.runtime.lambda_consumer import consumer_from_environment, ledger_from_environment
    from oneslot.runtime.sqs.producer import Accepted, NotAccepted, Outgoing, Producer
    from oneslot.runtime.stores.dynamodb import DynamoDBLedger
    from oneslot.runtime.stores.memory import MemoryLedger
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

_MODULES = {
    "consumer.consumer": "Consumer",
    "consumer.queues": "Queues",
    "handlers": "NOT_DONE UNKNOWN Done LockLost Locked acquire again ask make_handler_idempotent mark_processed "
    "performing release set_aside",
    "lambda_consumer": "consumer_from_environment ledger_from_environment",
    "sqs.producer": "Accepted NotAccepted Outgoing Producer",
    "stores.dynamodb": "DynamoDBLedger",
    "stores.memory": "MemoryLedger",
    "values": "from_attributes",
}
_ON_FIRST_USE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'oneslot' has no attribute {name!r}")
    return getattr(import_module(f"oneslot.runtime.{_ON_FIRST_USE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
