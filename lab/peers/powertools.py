"""Powertools for AWS Lambda: idempotency and batch, combined for SQS as its documentation does.

The layer is its own `DynamoDBPersistenceLayer`, with the in-progress expiry on (`register_lambda_context`). It reads the time
with `datetime.now()`, so its modules get a clock that the explorer moves.
"""

from __future__ import annotations

import datetime as real
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency import base as handler_module
from aws_lambda_powertools.utilities.idempotency.persistence import base as layer_module
from aws_lambda_powertools.utilities.idempotency.persistence import datarecord as record_module
from aws_lambda_powertools.utilities.idempotency.persistence import dynamodb as dynamodb_module

from lab.explore.ours import PortClient
from lab.explore.practice import LEDGER
from lab.peers.ledgers import take_slot, take_slot_once
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation
from oneslot.explorer.scenario import Run

Work = Callable[[Any, Mapping[str, Any]], dict[str, Any]]
"""Performs the effect of a message with a client, and returns the answer."""

Handler = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]
"""A Lambda function: event, context → the partial batch response."""


def powertools(client: Any, work: Work, *, table: str = "idempotency", key: str = "id") -> Handler:
    """Return the handler with Powertools' idempotency around `work`. `client` is boto3's for DynamoDB."""
    layer = DynamoDBPersistenceLayer(table_name=table, key_attr=key, boto3_client=client)
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


def _around(effect: Callable[[Any, str], dict[str, Any]]) -> Run:
    def program(
        process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
    ) -> Mapping[str, Any]:
        work: Work = lambda client, message: effect(client, message["message_id"])  # noqa: E731
        return powertools(PortClient(process), work, table=LEDGER, key="message_id")({"Records": records}, context)

    return program


around_plain_effect = _around(take_slot)
"""An update of the slot, wrapped in Powertools."""

around_transaction = _around(take_slot_once)
"""A transaction that can take effect once, wrapped in Powertools."""


class _Datetime(real.datetime):
    @classmethod
    def now(cls, tz: real.tzinfo | None = None) -> _Datetime:
        process = RunningInvocation.running
        if process is None:
            return super().now(tz)
        return cls.fromtimestamp(process.clock / 1000, tz)


class _Module:
    """A replacement of `datetime` in Powertools' modules."""

    datetime = _Datetime
    date, time, timedelta = real.date, real.time, real.timedelta


for _module in (handler_module, layer_module, record_module, dynamodb_module):
    _module.dt = _Module  # type: ignore[attr-defined]
