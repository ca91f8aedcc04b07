"""The same shop as it is usually written: Powertools' idempotency around the writes and the event."""

import json
import os

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

stock, orders, customers, baskets = map(boto3.resource("dynamodb").Table, ("stock", "orders", "customers", "baskets"))
topic = boto3.resource("sns").Topic(os.environ["TOPIC"])
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
config = IdempotencyConfig(event_key_jmespath="message_id")
layer = DynamoDBPersistenceLayer("idempotency")


@idempotent_function(data_keyword_argument="order", config=config, persistence_store=layer)
def take(order):
    customer, article = order["customer"], order["article"]
    if customers.get_item(Key={"id": customer})["Item"]["status"] != "active":
        return {"outcome": "unknown"}
    try:
        stock.update_item(
            Key={"article": article},
            UpdateExpression="ADD #left :one",
            ConditionExpression="#left > :none",
            ExpressionAttributeNames={"#left": "left"},
            ExpressionAttributeValues={":one": -1, ":none": 0},
        )
    except stock.meta.client.exceptions.ConditionalCheckFailedException:
        return {"outcome": "sold_out"}
    orders.put_item(Item={"customer": customer, "number": order["message_id"], "article": article})
    baskets.delete_item(Key={"customer": customer})
    topic.publish(Message=json.dumps({"order": order["message_id"], "article": article}))
    return {"outcome": "taken"}


def record_handler(record):
    return take(order=json.loads(record.body))


def handler(event, context):
    config.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=record_handler, processor=processor, context=context)
