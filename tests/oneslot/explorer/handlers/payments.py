"""Handlers that pay at a provider outside of the ledger, under each policy for an unknown outcome.

The provider is a table with a row for each payment. It takes a payment's number to be one request, which the SDK may repeat.
"""

import json
import uuid
from typing import Any

import boto3

from oneslot import (
    NOT_DONE,
    Consumer,
    Done,
    DynamoDBLedger,
    Effects,
    JsonMessage,
    Queues,
    Unprocessable,
    again,
    ask,
    make_handler_idempotent,
    performing,
    set_aside,
)

dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
ledger = DynamoDBLedger(dynamodb, "ledger", retention_seconds=None)
URL = "https://sqs.eu-west-2.amazonaws.com/1"
queues = Queues(sqs, f"{URL}/orders", f"{URL}/letters")


def pay(order: Any, key: str) -> str:
    dynamodb.put_item(TableName="payments", Item={"order": {"S": key}, "number": {"S": str(uuid.uuid4())}})
    return "paid"


def look(order: Any, key: str) -> Any:
    found = dynamodb.query(
        TableName="payments",
        ConsistentRead=True,
        KeyConditionExpression="#order = :order",
        ExpressionAttributeNames={"#order": "order"},
        ExpressionAttributeValues={":order": {"S": key}},
    )
    return Done("paid") if found["Items"] else NOT_DONE


def handler(if_unknown: Any) -> Any:
    """A handler of one's own around `make_handler_idempotent`."""
    handle = make_handler_idempotent(pay, lambda order: order["message_id"], ledger, 30, if_unknown=if_unknown)

    def consume(event: Any, context: Any) -> None:
        for record in event["Records"]:
            try:
                handle(json.loads(record["body"]))
            except Unprocessable as problem:
                sqs.send_message(QueueUrl=queues.dead_letter_queue_url, MessageBody=problem.reason)

    return consume


def consumer(if_unknown: Any) -> Any:
    """The same as a `Consumer`."""

    def decide(order: JsonMessage) -> Effects:
        return Effects({"outcome": pay(order, order.message_id)})

    def found(order: JsonMessage, key: str) -> Any:
        return Done({"outcome": "paid"}) if look(order, key) is not NOT_DONE else NOT_DONE

    policy = ask(found) if if_unknown is asking else if_unknown
    return Consumer(ledger, queues, JsonMessage, decide, attempt=performing(policy), log=lambda delivery: None)


asking = ask(look)
handler_again, handler_set_aside, handler_ask = handler(again), handler(set_aside), handler(asking)
consumer_again, consumer_set_aside, consumer_ask = consumer(again), consumer(set_aside), consumer(asking)
