"""The appointments consumer for `oneslot worker`: without Powertools' metrics and batch response, which Lambda needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from botocore.config import Config

from booking.compose import client_configuration, compose, without_private_trace
from booking.configuration import Configuration
from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.consumer import process
from oneslot.runtime.consumer.delivery_log import Delivery


def compose_consumer(  # noqa: PLR0917 - the parts of one consumer
    environment: Mapping[str, str],
    queue_url: str | None,
    threads: int,
    connect_dynamodb: Callable[[Config], Any],
    sqs: Any,
    log: Callable[[Delivery], None],
) -> tuple[str, Any]:
    """Return the URL of the consumer's queue and the consumer, as a Lambda handler.

    `queue_url` replaces the queue of `environment`. Raises `ValueError` for a wrong value in `environment`.
    """
    configuration = Configuration.from_environment(environment)
    if queue_url:  # a busy message is deferred in the queue that it came from
        configuration = replace(configuration, queue_url=queue_url)
    dynamodb = connect_dynamodb(client_configuration(threads))
    consumer = compose(configuration, dynamodb, sqs, without_private_trace(log), attempt=attempt, process=process)
    return configuration.queue_url, consumer
