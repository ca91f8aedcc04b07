"""The Lambda function's entry point: clients made once, the consumer, its log and its metrics."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from threading import Lock
from typing import Any, cast

# What imports make stays. Looking for garbage in it, again and again as it grows, was a seventh of a start's CPU.
gc.disable()

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from appointments.outcomes import ANSWERED
from booking.compose import client_configuration, compose
from booking.configuration import Configuration
from booking.slot_search import AskTogether
from oneslot.runtime.consumer.consumer import Delivery
from oneslot.runtime.consumer.queues import SQS
from oneslot.runtime.stores.expressions import DynamoDB

logger = Logger()
metrics = Metrics()
configuration = Configuration.from_environment(os.environ)

client_config = client_configuration(configuration.batch_concurrency)
deliveries: list[Delivery] = []  # of the invocation that runs; an environment runs one at a time


def stay_on_one_core() -> None:
    """Hold this thread, and those that it will start, to one core.

    Python lets one thread run at a time (the GIL), so a batch's threads have use for one core only, and waking each other
    across two takes time. Where the system refuses, all is as without it.
    """
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        try:
            # By the process: handlers that share a machine do not all meet on its first core.
            os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
        except OSError as error:
            logger.warning("one_core has no effect: %s", error.strerror)


if configuration.one_core:
    stay_on_one_core()


class SQSOnFirstUse:
    """SQS's client, made for the first message that is busy or unprocessable: to make it takes a sixth of a start."""

    def __init__(self) -> None:
        self._lock = Lock()  # boto3 makes no two clients at a time
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self._client = self._client or boto3.client("sqs", config=client_config)
        return getattr(self._client, name)


def log(delivery: Delivery) -> None:
    """One line for each attempt, written when it ends: what a crash leaves unsaid is then only its own."""
    logger.info("delivery", **asdict(delivery))
    deliveries.append(delivery)


dynamodb: Any = boto3.client("dynamodb", config=client_config)
executor = ThreadPoolExecutor(configuration.batch_concurrency) if configuration.batch_concurrency > 1 else None


def make_queries_together() -> AskTogether | None:
    """What asks a group's queries at once, where that is set and nothing hinders it."""
    if not configuration.queries_together:
        return None
    # Here, so that no other start pays for it.
    from botocore.utils import get_environ_proxies

    from booking.queries_together import QueriesTogether

    if get_environ_proxies(dynamodb.meta.endpoint_url):
        logger.warning("queries_together has no effect: a proxy is set")
        return None
    credentials: Any = boto3.Session().get_credentials()
    return QueriesTogether(dynamodb, credentials, configuration.batch_concurrency, executor)


consumer = compose(
    configuration,
    cast("DynamoDB", dynamodb),
    cast("SQS", SQSOnFirstUse()),
    log,
    executor=executor,
    queries_together=make_queries_together(),
)

# Collect as usual from here on, without going through what the start has made.
gc.freeze()
gc.enable()


@metrics.log_metrics
def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Consume one batch; the answer names the records that failed."""
    deliveries.clear()
    answer = consumer(event, context)
    metrics.add_metric("Deliveries", MetricUnit.Count, len(deliveries))
    for outcome, count in Counter(delivery.outcome for delivery in deliveries).items():
        metrics.add_metric(f"Deliveries{outcome.capitalize()}", MetricUnit.Count, count)
    for delivery in deliveries:
        if delivery.outcome in ANSWERED:  # for the first time: a duplicate repeats an answer
            metrics.add_metric("SentToDone", MetricUnit.Milliseconds, max(0, delivery.finished - delivery.sent))
    return answer
