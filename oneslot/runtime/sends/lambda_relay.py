"""The Lambda function that the construct puts behind the ledger's stream: `oneslot.runtime.sends.lambda_relay.handler`.

A second event, each minute, lets it look for what waits, by the index `ONESLOT_UNSENT_INDEX` of the ledger. With that index it
reports no failure to Lambda: Lambda would go back to the first one, and hold every row behind it in its shard.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3

from oneslot.runtime.lambda_consumer import UNSENT_INDEX, client_configuration, ledger_from_environment
from oneslot.runtime.sends.relay import Relay


@cache
def client(service: str, region_name: str | None = None) -> Any:
    """Return the client of a service in a region, made on its first use."""
    make: Any = boto3.client
    return make(service, region_name=region_name, config=client_configuration(threads=1))


relay = Relay(ledger_from_environment(), client)
INDEX = os.environ.get(UNSENT_INDEX)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Send for the records of the stream; for any other event look for what waits."""
    if "Records" not in event:
        relay.look(context, index=INDEX)
        return {}
    answer = relay.consume(event, context)
    return {"batchItemFailures": []} if INDEX else answer
