"""A consumer whose decision sends, and its relay, as one handler: a message `{"turn": "relay"}` is the relay's turn.

One target of the relay is dead: a topic that answers each call with `NotFound`.
"""

import json
from typing import Any

import boto3
from botocore.exceptions import ClientError

from oneslot import Effects, JsonMessage, Once, Put, Send, consumer_from_environment, ledger_from_environment
from oneslot.runtime.sends.relay import Relay

ledger = ledger_from_environment()
sqs = boto3.client("sqs")


def take(order: JsonMessage) -> Effects:
    once = Once(Put("orders", {"order_id": order.message_id}), lambda found: {"outcome": "taken"})
    return Effects({"outcome": "taken"}, sends=[Send("mails", {"order": order.message_id})], once=once)


class _DeadTopic:
    def publish_batch(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "NotFound", "Message": "Topic does not exist"}}, "PublishBatch")


consumer = consumer_from_environment(take, ledger=ledger, sqs=sqs)
relay = Relay(ledger, {"sqs": sqs, "sns": _DeadTopic()}.__getitem__)


def handler(event: Any, context: Any) -> Any:
    (record,) = event["Records"]
    if "turn" not in json.loads(record["body"]):
        return consumer(event, context)
    relay.send([row["message_id"] for row in relay.waiting()])
    return None
