"""A consumer in Lambda from a decision and the environment, as the construct `ExactlyOnceConsumer` sets it.

| variable                           | value                                                  |
|------------------------------------|--------------------------------------------------------|
| `ONESLOT_LEDGER_TABLE`             | the ledger's table                                     |
| `ONESLOT_LEDGER_RETENTION_SECONDS` | how long the ledger knows a message, or `forever`      |
| `ONESLOT_QUEUE_URL`                | the queue                                              |
| `ONESLOT_DEAD_LETTER_QUEUE_URL`    | its dead-letter queue                                  |
| `ONESLOT_TABLE_ORDERS`             | the table that a decision calls "orders"; one for each |
| `ONESLOT_MAX_RECEIVE_COUNT` ...    | the deferral's numbers, optional; see `sqs/deferral.py` |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

import boto3
from botocore.config import Config

from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.consumer.record import Parse
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import JsonMessage, Message
from oneslot.runtime.sqs.deferral import deferral_of
from oneslot.runtime.stores.dynamodb import DynamoDBLedger

M = TypeVar("M", bound=Message)

LEDGER_TABLE = "ONESLOT_LEDGER_TABLE"
LEDGER_RETENTION = "ONESLOT_LEDGER_RETENTION_SECONDS"
QUEUE_URL = "ONESLOT_QUEUE_URL"
DEAD_LETTER_QUEUE_URL = "ONESLOT_DEAD_LETTER_QUEUE_URL"
TABLE_PREFIX = "ONESLOT_TABLE_"
FOREVER = "forever"


@overload
def consumer_from_environment(
    decide: Callable[[JsonMessage], Effects], *, threads: int = 1, **options: Any
) -> Consumer[JsonMessage]: ...


@overload
def consumer_from_environment(
    decide: Callable[[M], Effects], parse: Parse[M], *, threads: int = 1, **options: Any
) -> Consumer[M]: ...


def consumer_from_environment(
    decide: Callable[[Any], Effects], parse: Parse[Any] = JsonMessage, *, threads: int = 1, **options: Any
) -> Consumer[Any]:
    """Return the consumer, which is the Lambda handler. Call it once, when the module is imported.

    Args:
        decide: the message → its `Effects`; raises `Unprocessable` for what can never succeed.
        parse: `(message_id, payload_hash, body)` → the message; raises `Unprocessable`.
        threads: how many records of a batch are consumed side by side.
        options: further attributes of `Consumer`, such as `identity` or `log`.

    Raises:
        ValueError: naming the variable that is missing or malformed.
    """
    ledger = ledger_from_environment(threads)
    sqs = boto3.client("sqs", config=client_configuration(threads))
    queues = Queues(sqs, _text(QUEUE_URL), _text(DEAD_LETTER_QUEUE_URL), deferral=deferral_of(os.environ))
    executor = ledger.surroundings.threads.executor(threads, "record") if threads > 1 else None
    return Consumer(ledger, queues, parse, decide, **{"executor": executor, **options})


def ledger_from_environment(threads: int = 1) -> DynamoDBLedger:
    """Return the ledger, which knows every table of the environment. Raises `ValueError` if a variable is missing."""
    retention = _text(LEDGER_RETENTION)
    if retention != FOREVER and not (retention.isdecimal() and int(retention) > 0):
        raise ValueError(f"environment variable {LEDGER_RETENTION} must be a whole number above 0, or {FOREVER!r}")
    tables = {
        name.removeprefix(TABLE_PREFIX).lower(): table
        for name, table in os.environ.items()
        if name.startswith(TABLE_PREFIX)
    }
    return DynamoDBLedger(
        boto3.client("dynamodb", config=client_configuration(threads)),
        _text(LEDGER_TABLE),
        retention_seconds=None if retention == FOREVER else int(retention),
        tables=tables,
    )


def client_configuration(threads: int) -> Config:
    """Return the settings of the AWS clients. Their timeouts are short: a lost answer is asked for again in time."""
    return Config(
        connect_timeout=1,
        read_timeout=3,
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=threads + 1,
    )


def _text(name: str) -> str:
    if not os.environ.get(name):
        raise ValueError(f"environment variable {name} is not set; the construct ExactlyOnceConsumer sets it")
    return os.environ[name]
