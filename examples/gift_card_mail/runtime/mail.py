"""The Lambda function that consumes the outbox table's stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import boto3

from examples.gift_card_mail.runtime.mails import SesMailer, deliver_stream
from oneslot import ledger_from_environment

consume = deliver_stream(
    ledger_from_environment(),
    SesMailer(boto3.client("sesv2"), os.environ["SENDER"]),
    lock_timeout=float(os.environ["LOCK_TIMEOUT_SECONDS"]),
)


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, list[dict[str, str]]]:
    """Consume one event."""
    return consume(event)
