"""The consumer as it was: Powertools marks an order before and after the charge."""

import json
import os

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

accounts = boto3.resource("dynamodb").Table("accounts")
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
config = IdempotencyConfig(event_key_jmespath="message_id")


@idempotent_function(
    data_keyword_argument="order",
    config=config,
    persistence_store=DynamoDBPersistenceLayer(os.environ["IDEMPOTENCY_TABLE"]),
)
def charge(order):
    accounts.update_item(
        Key={"customer": order["customer"]},
        UpdateExpression="ADD pence :pence",
        ExpressionAttributeValues={":pence": order["pence"]},
    )
    return {"charged": order["pence"]}


def handler(event, context):
    config.register_lambda_context(context)
    return process_partial_response(
        event=event,
        record_handler=lambda record: charge(order=json.loads(record.body)),
        processor=processor,
        context=context,
    )
