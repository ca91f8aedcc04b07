"""Puts the consumer together from its configuration and two clients. The handler does it once; tests do it as they need."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, cast

import botocore
from botocore.config import Config

from appointments.allocation import APPOINTMENTS, SLOTS
from appointments.messages import Request, parse_message
from booking.configuration import Configuration
from booking.slot_search import AskTogether, Schedule
from oneslot.runtime.consumer.consumer import Consumer, Delivery
from oneslot.runtime.consumer.group_commit import BatchReader, GroupConsumer, GroupLedger
from oneslot.runtime.consumer.queues import SQS, Queues
from oneslot.runtime.stores.dynamodb import Ledger, Surroundings
from oneslot.runtime.stores.expressions import DynamoDB


def client_configuration(batch_concurrency: int) -> Config:
    """How the consumer's AWS clients are set up, for so many records side by side."""
    return Config(
        # Short: a lost response is asked for again within the invocation.
        connect_timeout=1,
        read_timeout=3,
        retries={"mode": "standard", "total_max_attempts": 4},
        # One for each thread, and one for the thread that waits for them: in a group it makes a call, too.
        max_pool_connections=batch_concurrency + 1,
        # Both would be done for each call anew. The tests check the parameters of every call that there is.
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
    queries_together: AskTogether | None = None,
) -> Consumer[Request]:
    """The appointments consumer. `executor` runs a batch's records side by side; None runs them in turn.

    `queries_together` asks a group's queries at once (`QueriesTogether`); None asks each by the client.
    """
    surroundings = surroundings or Surroundings()
    together = configuration.group_commit
    schedule = Schedule(
        dynamodb,
        configuration.slots_table,
        configuration.appointments_table,
        configuration.candidate_slots,
        surroundings.now_ms,
        executor if together else None,
        queries_together,
    )
    ledger = (GroupLedger if together else Ledger)(
        cast("BatchReader", dynamodb),
        configuration.ledger_table,
        retention_seconds=configuration.ledger_retention_seconds,
        tables={SLOTS: configuration.slots_table, APPOINTMENTS: configuration.appointments_table},
        surroundings=surroundings,
    )
    parts: dict[str, Any] = {
        "queues": Queues(sqs, configuration.queue_url, configuration.dead_letter_queue_url, surroundings.jitter),
        "parse": parse_message,
        "decide": schedule.decide,
        "log": log,
        "content_based": configuration.content_based_deduplication,
        "executor": executor,
    }
    if together:
        return GroupConsumer(ledger, **parts, decide_together=schedule.decide_together)
    return Consumer(ledger, **parts)
