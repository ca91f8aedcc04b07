"""The Lambda function that consumes the queue of orders."""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import boto3

from examples.gift_card_mail.runtime.gift_cards import CARDS, OUTBOX, Order, issue, parse
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Surroundings


def compose(
    environment: Mapping[str, str],
    dynamodb: Any,
    sqs: Any,
    log: Callable[[Delivery], None],
    surroundings: Surroundings | None = None,
) -> Consumer[Order]:
    """Return the consumer for an environment and two clients."""
    ledger = DynamoDBLedger(
        dynamodb,
        environment["ONESLOT_LEDGER_TABLE"],
        retention_seconds=int(environment["ONESLOT_LEDGER_RETENTION_SECONDS"]),
        tables={CARDS: environment["ONESLOT_TABLE_CARDS"], OUTBOX: environment["ONESLOT_TABLE_OUTBOX"]},
        surroundings=surroundings,
    )
    queues = Queues(sqs, environment["ONESLOT_QUEUE_URL"], environment["ONESLOT_DEAD_LETTER_QUEUE_URL"], random.random)
    return Consumer(ledger, queues, parse, lambda order: issue(order, lambda: secrets.token_hex(8)), log)


def log_line(delivery: Delivery) -> None:
    """Log one line for each attempt."""
    print(json.dumps({"message": "delivery", **asdict(delivery)}))  # noqa: T201  Lambda logs what is printed


consumer: Consumer[Order] | None = None


def handler(event: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
    """Consume one event. The first event creates the clients, and later ones reuse them."""
    global consumer  # noqa: PLW0603  one for the life of the process
    consumer = consumer or compose(os.environ, boto3.client("dynamodb"), boto3.client("sqs"), log_line)
    return consumer(event, context)
