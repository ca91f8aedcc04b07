"""The handlers that are compared: ours as the stack composes it, and Powertools' as its documentation builds it.

All do the same business: find a free slot, take it, book it. Powertools' has `BatchProcessor` around
`@idempotent_function` with the stock `DynamoDBPersistenceLayer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from botocore.exceptions import ClientError

from booking.consumer import appointments_consumer
from lab.benchmarks.batches import CONCURRENCY, ENVIRONMENT, Handler
from oneslot.runtime.powertools import attempt
from oneslot.runtime.stores.expressions import error_code


def ours(dynamodb: Any, sqs: Any, *, group_commit: bool) -> Handler:
    """Return our consumer as the function composes it, without log and metrics, which Powertools' does not write either."""
    return appointments_consumer(
        {**ENVIRONMENT, "GROUP_COMMIT": str(group_commit).lower()},
        lambda delivery: None,
        dynamodb=dynamodb,
        sqs=sqs,
        executor=ThreadPoolExecutor(CONCURRENCY),
        attempt=attempt,
    )


def powertools(client: Any) -> Handler:
    """Return the handler with Powertools' idempotency. `client` is boto3's for DynamoDB."""
    layer = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=client)
    config = IdempotencyConfig(event_key_jmespath="message_id")
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)

    def work(message: Mapping[str, Any]) -> dict[str, Any]:
        return book(client, message)

    handle = idempotent_function(work, data_keyword_argument="message", config=config, persistence_store=layer)

    def record_handler(record: SQSRecord) -> None:
        handle(message=json.loads(record.body))

    def handler(event: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
        config.register_lambda_context(context)
        return process_partial_response(dict(event), record_handler, processor, context)

    return handler


def book(client: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    """Take the first free slot, searching again if it was taken meanwhile, and write the appointment."""
    kind = f"{message['delivery_channel']}#{message['service_type']}"
    appointment = {
        "appointment_id": {"S": message["message_id"]},
        "practice": {"S": message["practice"]},
        "nhs_number": {"S": message["nhs_number"]},
    }
    while True:
        found = client.query(
            TableName="slots",
            IndexName="free_slots",
            ConsistentRead=True,
            KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":practice": {"S": message["practice"]},
                ":first": {"S": f"{kind}#{message['not_before']}#"},
                ":last": {"S": f"{kind}#{message['not_after']}#"},
            },
            Limit=1,
        )["Items"]
        if not found:
            client.put_item(TableName="appointments", Item={**appointment, "status": {"S": "waitlist"}})
            return {"outcome": "waitlist"}
        try:
            client.update_item(
                TableName="slots",
                Key={"practice": found[0]["practice"], "slot_id": found[0]["slot_id"]},
                ConditionExpression="#status = :free",
                UpdateExpression="SET #status = :busy, appointment_id = :appointment_id REMOVE free_key",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={
                    ":free": {"S": "free"},
                    ":busy": {"S": "busy"},
                    ":appointment_id": {"S": message["message_id"]},
                },
            )
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                continue
            raise
        client.put_item(
            TableName="appointments", Item={**appointment, "status": {"S": "booked"}, "slot_id": found[0]["slot_id"]}
        )
        return {"outcome": "booked", "slot_id": found[0]["slot_id"]["S"]}
