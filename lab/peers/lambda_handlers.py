"""The peers as `lambda_handler`s over boto3, for the explorer of any handler. Their code is not repeated here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import boto3

from lab.peers import ledgers, powertools

client: Any = boto3.client("dynamodb")


class Account:
    """What a peer calls and reads: DynamoDB, and the clock (epoch ms)."""

    @property
    def clock(self) -> int:
        """Return the time."""
        return int(time.time() * 1000)

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Make a call. Raises what boto3 raises."""
        return getattr(client, operation)(**parameters)


def _handler(run: Callable[..., Mapping[str, Any]]) -> Callable[[Any, Any], Mapping[str, Any]]:
    return lambda event, context: run(Account(), context, event["Records"], False)


get_then_put = _handler(ledgers.get_then_put)
get_then_put_with_conditions = _handler(ledgers.get_then_put_with_conditions)
acquire_mark_release = _handler(ledgers.acquire_mark_release)
around_plain_effect = _handler(powertools.around_plain_effect)
around_transaction = _handler(powertools.around_transaction)
