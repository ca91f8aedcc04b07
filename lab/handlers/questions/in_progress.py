"""IdempotencyAlreadyInProgressError: store a report, with Powertools' idempotency."""

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

reports = boto3.resource("dynamodb").Table("reports")
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
config = IdempotencyConfig(event_key_jmespath="messageId")


@idempotent_function(
    data_keyword_argument="record", config=config, persistence_store=DynamoDBPersistenceLayer("idempotency")
)
def store(record):
    reports.put_item(Item={"id": record.message_id, "text": record.body})
    return {"stored": record.message_id}


def handler(event, context):
    return process_partial_response(event=event, record_handler=store, processor=processor, context=context)


def fixed(event, context):
    config.register_lambda_context(context)
    return process_partial_response(event=event, record_handler=store, processor=processor, context=context)
