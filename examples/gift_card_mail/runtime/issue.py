"""The Lambda function that consumes the queue of orders."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import boto3

from examples.gift_card_mail.runtime.gift_cards import CARDS, OUTBOX, Order, issue, parse
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.delivery_log import Delivery, print_line
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
    queues = Queues(sqs, environment["ONESLOT_QUEUE_URL"], environment["ONESLOT_DEAD_LETTER_QUEUE_URL"])
    return Consumer(ledger, queues, parse, lambda order: issue(order, lambda: secrets.token_hex(8)), log)


consumer: Consumer[Order] | None = None


def handler(event: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
    """Consume one event. The first event creates the clients, and later ones reuse them."""
    global consumer  # noqa: PLW0603  one for the life of the process
    consumer = consumer or compose(os.environ, boto3.client("dynamodb"), boto3.client("sqs"), print_line)
    return consumer(event, context)
