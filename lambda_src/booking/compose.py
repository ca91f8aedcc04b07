"""Compose the consumer from its configuration and two clients."""

from __future__ import annotations

from collections.abc import Callable

import botocore
from botocore.config import Config

from appointments import nhs_number
from appointments.allocation import APPOINTMENTS, SLOTS
from appointments.messages import Request, parse_message
from booking.configuration import Configuration
from booking.slot_search import SlotSearch
from oneslot.runtime import powertools
from oneslot.runtime.consumer.consumer import Attempt, Consumer, Process
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.runtime.consumer.group_commit import GroupCommit
from oneslot.runtime.consumer.queues import SQS, Queues
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import DynamoDB
from oneslot.runtime.surroundings import Executor, Surroundings


def client_configuration(batch_concurrency: int) -> Config:
    """Return the settings of the consumer's AWS clients, for this many records side by side."""
    return Config(
        # Short: a lost response is asked for again within the invocation.
        connect_timeout=1,
        read_timeout=3,
        retries={"mode": "standard", "total_max_attempts": 4},
        # One for each thread, and one for the thread that waits for them: in a group it makes a call, too.
        max_pool_connections=batch_concurrency + 1,
        # Botocore would do both again for each call. The tests check the parameters of every call.
        user_agent=f"Oneslot Botocore/{botocore.__version__}",
        parameter_validation=False,
    )


def compose(
    configuration: Configuration,
    dynamodb: DynamoDB,
    sqs: SQS,
    log: Callable[[Delivery], None],
    *,
    executor: Executor | None = None,
    surroundings: Surroundings | None = None,
    attempt: Attempt = powertools.attempt,
    process: Process = powertools.process,
) -> Consumer[Request]:
    """Return the appointments consumer.

    Args:
        executor: runs a batch's records side by side; None for one after the other.
        attempt, process: the way through the protocol and through a batch; the deployed function goes through Powertools.
    """
    surroundings = surroundings or Surroundings()
    slots = SlotSearch(
        dynamodb,
        configuration.slots_table,
        configuration.appointments_table,
        configuration.candidate_slots,
        surroundings.now_ms,
        executor if configuration.group_commit else None,
    )
    ledger = DynamoDBLedger(
        dynamodb,
        configuration.ledger_table,
        retention_seconds=configuration.ledger_retention_seconds,
        tables={SLOTS: configuration.slots_table, APPOINTMENTS: configuration.appointments_table},
        surroundings=surroundings,
    )
    group = GroupCommit(ledger, slots.decide_together, executor)
    return Consumer(
        ledger,
        queues=Queues(
            sqs,
            configuration.queue_url,
            configuration.dead_letter_queue_url,
            surroundings.jitter,
            configuration.deferral,
        ),
        parse=parse_message,
        decide=slots.decide,
        log=log,
        content_based=configuration.content_based_deduplication,
        executor=executor,
        group=group if configuration.group_commit else None,
        attempt=attempt,
        process=process,
    )


def without_private_trace(log: Callable[[Delivery], None]) -> Callable[[Delivery], None]:
    """Return `log` that leaves out a trace which could hold an NHS number: the producer chooses its digits."""

    def log_without(delivery: Delivery) -> None:
        if delivery.trace and nhs_number.could_hold_one(delivery.trace):
            delivery.trace = None
        log(delivery)

    return log_without
