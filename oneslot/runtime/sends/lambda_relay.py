"""The Lambda function that the construct puts behind the ledger's stream: `oneslot.runtime.sends.lambda_relay.handler`."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3

from oneslot.runtime.lambda_consumer import client_configuration, ledger_from_environment
from oneslot.runtime.sends.relay import Relay


@cache
def client(service: str) -> Any:
    """Return the client of a service, made on its first use."""
    make: Any = boto3.client
    return make(service, config=client_configuration(threads=1))


handler = Relay(ledger_from_environment(), client).consume
