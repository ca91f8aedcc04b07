"""The appointments consumer: Oneslot's consumer around the slot search, by the environment that the stack sets."""

from collections.abc import Callable, Mapping
from typing import Any

from appointments import nhs_number
from appointments.messages import Request, parse_message
from booking.slot_search import SlotSearch
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.lambda_consumer import consumer_from_environment, ledger_from_environment, number
from oneslot.runtime.record import Delivery
from oneslot.runtime.surroundings import Surroundings

BATCH_CONCURRENCY = "10"
"""Records of a batch at once, unless the environment says otherwise: they wait for DynamoDB, they do not compute."""


def appointments_consumer(
    environment: Mapping[str, str],
    log: Callable[[Delivery], None],
    *,
    threads: int | None = None,
    dynamodb: Any = None,
    surroundings: Surroundings | None = None,
    **options: Any,
) -> Consumer[Request]:
    """Return the consumer.

    Args:
        threads: how many records of a batch are consumed side by side; None for what `environment` says.
        dynamodb: a client in place of boto3's.
        options: further arguments of `consumer_from_environment`.

    Raises:
        ValueError: naming the variable that is missing or malformed.
    """
    threads = threads or number({"BATCH_CONCURRENCY": BATCH_CONCURRENCY, **environment}, "BATCH_CONCURRENCY")
    ledger = ledger_from_environment(threads, environment, client=dynamodb, surroundings=surroundings)
    slots = SlotSearch(ledger, number(environment, "CANDIDATE_SLOTS"))
    return consumer_from_environment(
        slots.decide,
        parse_message,
        threads=threads,
        environment=environment,
        ledger=ledger,
        decide_together=slots.decide_together if environment.get("GROUP_COMMIT") == "true" else None,
        content_based=environment.get("CONTENT_BASED_DEDUPLICATION") == "true",
        log=log,
        is_private=nhs_number.could_hold_one,
        **options,
    )
