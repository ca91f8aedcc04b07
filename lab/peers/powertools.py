"""Powertools for AWS Lambda: idempotency and batch, combined for SQS as its documentation does.

The layer is its own `DynamoDBPersistenceLayer`, with the in-progress expiry on (`register_lambda_context`). It reads the time
with `datetime.now()`, so its modules get a clock that the explorer moves.
"""

from __future__ import annotations

import datetime as real
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency import base as handler_module
from aws_lambda_powertools.utilities.idempotency.persistence import base as layer_module
from aws_lambda_powertools.utilities.idempotency.persistence import datarecord as record_module
from aws_lambda_powertools.utilities.idempotency.persistence import dynamodb as dynamodb_module

from lab.explore.ours import PortClient
from lab.explore.practice import LEDGER
from lab.peers.ledgers import message_id_of, take_slot, take_slot_once
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation


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

Effect = Callable[[Any, str], dict[str, Any]]


def _consume(
    effect: Effect,
    process: RunningInvocation,
    context: InvocationContext,
    records: Sequence[dict[str, Any]],
    side_by_side: bool,
) -> Mapping[str, Any]:
    client = PortClient(process)
    config = IdempotencyConfig(event_key_jmespath="messageId")
    config.register_lambda_context(context)  # type: ignore[arg-type]  # it asks for the remaining time only
    layer = DynamoDBPersistenceLayer(table_name=LEDGER, key_attr="message_id", boto3_client=cast("Any", client))

    def book(*, record: dict[str, Any]) -> dict[str, Any]:
        return effect(client, message_id_of(record))

    idempotent = idempotent_function(
        book, data_keyword_argument="record", config=config, persistence_store=layer, key_prefix="booking"
    )

    def handle(record: SQSRecord) -> None:
        idempotent(record=record.raw_event)

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    with processor(records=list(records), handler=handle):
        processor.process()
    return processor.response()


around_plain_effect = partial(_consume, take_slot)
"""An update of the slot, wrapped in Powertools."""

around_transaction = partial(_consume, take_slot_once)
"""A transaction that can take effect once, wrapped in Powertools."""
