"""The handlers that are compared: ours as the stack composes it, and Powertools' as its documentation builds it.

All do the same business: find a free slot, take it, book it. Powertools' has `BatchProcessor` around
`@idempotent_function` with the stock `DynamoDBPersistenceLayer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

from booking.consumer import appointments_consumer
from lab.benchmarks.batches import CONCURRENCY, ENVIRONMENT, Handler
from lab.peers.effects import take_slot
from oneslot.runtime.powertools import attempt
from oneslot.runtime.values import to_attributes

Work = Callable[[Any, Mapping[str, Any]], dict[str, Any]]
"""Performs the effect of a message with a client, and returns the answer."""


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


def book(client: Any, message: Mapping[str, Any]) -> dict[str, Any]:
    """Take the first free slot, searching again if it was taken meanwhile, and write the appointment."""
    kind = f"{message['delivery_channel']}#{message['service_type']}"
    first, last = (f"{kind}#{message[name]}#" for name in ("not_before", "not_after"))
    answer = take_slot(client, message["message_id"], message["practice"], first, last)
    appointment = {
        "appointment_id": message["message_id"],
        "practice": message["practice"],
        "nhs_number": message["nhs_number"],
        "status": answer["outcome"],
    }
    slot = {"slot_id": answer["slot_id"]} if "slot_id" in answer else {}
    client.put_item(TableName="appointments", Item=to_attributes({**appointment, **slot}))
    return answer


def powertools(client: Any, work: Work = book) -> Handler:
    """Return the handler with Powertools' idempotency around `work`. `client` is boto3's for DynamoDB."""
    layer = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=client)
    config = IdempotencyConfig(event_key_jmespath="message_id")
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)

    def effect(message: Mapping[str, Any]) -> dict[str, Any]:
        return work(client, message)

    handle = idempotent_function(effect, data_keyword_argument="message", config=config, persistence_store=layer)

    def record_handler(record: SQSRecord) -> None:
        handle(message=json.loads(record.body))

    def handler(event: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
        config.register_lambda_context(context)
        return process_partial_response(dict(event), record_handler, processor, context)

    return handler
