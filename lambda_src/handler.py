"""The Lambda function's entry point: the consumer, with idempotency, log and metrics by Powertools."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

from oneslot.runtime.lambda_consumer import uncollected

with uncollected():
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from appointments.outcomes import ANSWERED
    from booking.consumer import appointments_consumer
    from oneslot.runtime import powertools
    from oneslot.runtime.record import Delivery, function_version

logger = Logger()
logger.append_keys(**function_version(os.environ))
deliveries: ContextVar[list[Delivery]] = ContextVar("deliveries")
"""Those of the running invocation. `oneslot worker` runs several side by side, each in the context of its thread."""


def log(delivery: Delivery) -> None:
    """Write one line for each attempt, when it ends: a crash then loses no other attempt's line."""
    logger.info("delivery", **asdict(delivery))
    deliveries.get().append(delivery)


consumer = appointments_consumer(os.environ, log, attempt=powertools.attempt)


def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> Mapping[str, Any]:
    """Consume one batch; the answer names the records that failed."""
    deliveries.set([])
    answer = consumer(event, context)
    _count(deliveries.get())
    return answer


def _count(ended: Sequence[Delivery]) -> None:
    metrics = EphemeralMetrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE", "Oneslot"))  # a worker has none
    metrics.add_metric("Deliveries", MetricUnit.Count, len(ended))
    for outcome, count in Counter(delivery.outcome for delivery in ended).items():
        metrics.add_metric(f"Deliveries{outcome.capitalize()}", MetricUnit.Count, count)
    for delivery in ended:
        if delivery.outcome in ANSWERED:  # for the first time: a duplicate repeats an answer
            metrics.add_metric("SentToDone", MetricUnit.Milliseconds, max(0, delivery.finished - delivery.sent))
    metrics.flush_metrics()
