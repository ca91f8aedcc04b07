"""The Lambda function that consumes the outbox table's stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import boto3

from examples.gift_card_mail.runtime.mails import SesMailer, deliver_stream
from oneslot.runtime.stores.dynamodb import DynamoDBLedger

consume: Callable[[Mapping[str, Any]], dict[str, list[dict[str, str]]]] | None = None


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, list[dict[str, str]]]:
    """Consume one event. The first event creates the clients, and later ones reuse them."""
    global consume  # noqa: PLW0603  one for the life of the process
    if consume is None:
        ledger = DynamoDBLedger(
            boto3.client("dynamodb"),
            os.environ["ONESLOT_LEDGER_TABLE"],
            retention_seconds=int(os.environ["ONESLOT_LEDGER_RETENTION_SECONDS"]),
        )
        mailer = SesMailer(boto3.client("sesv2"), os.environ["SENDER"])
        consume = deliver_stream(ledger, mailer, lock_timeout=float(os.environ["LOCK_TIMEOUT_SECONDS"]))
    return consume(event)
