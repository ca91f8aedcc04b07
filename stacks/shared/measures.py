"""The metrics of a deployed stage: AWS's own of the queue, the function and the tables, and the handler's few.

The handler's metrics have one dimension, the service, and live in a namespace of the stage: each costs once, whatever the
traffic. AWS's own cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from stacks.shared.deployed import Deployed

SERVICE = "appointments"
VIOLATIONS_METRIC = "AuditViolations"
LATENCY_METRIC = "SentToDone"
OUTCOMES = ("booked", "waitlist", "cancelled", "refused", "duplicate", "busy", "quarantined", "fenced", "failed")
"""The outcomes of a delivery. The handler counts each as `Deliveries` + the outcome, capitalised."""


def namespace(stage: str) -> str:
    """Return the CloudWatch namespace of a stage's own metrics, so two stages in one account stay apart."""
    return f"Oneslot/{stage}"


@dataclass(frozen=True)
class Measures:
    """The metrics of one deployed stage, each as a sum or maximum over a minute unless stated otherwise."""

    deployed: Deployed
    stage: str

    def queue(self, name: str, statistic: str = "Maximum", label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of the request queue."""
        return metric("AWS/SQS", name, {"QueueName": self.deployed.queue_name}, statistic, label)

    def dead_letters(self, label: str | None = None) -> cloudwatch.Metric:
        """Return the messages in the dead-letter queue. SQS's count of sent messages misses what the redrive policy moved."""
        dimensions = {"QueueName": self.deployed.dead_letter_queue_name}
        return metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dimensions, "Maximum", label)

    def function(self, name: str, statistic: str = "Sum", label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of the consumer."""
        dimensions = {"FunctionName": self.deployed.output("ConsumerFunctionName")}
        return metric("AWS/Lambda", name, dimensions, statistic, label)

    def tables(self, name: str) -> dict[str, cloudwatch.Metric]:
        """Return a metric of each table, by what the table holds."""
        return {
            holds: metric("AWS/DynamoDB", name, {"TableName": table}, "Sum", f"{holds}: {name}")
            for holds, table in self.deployed.table_names().items()
        }

    def deliveries(self, outcome: str) -> cloudwatch.Metric:
        """Return the number of deliveries with this outcome."""
        return self._own(f"Deliveries{outcome.capitalize()}", "Sum", outcome)

    def latency(self, statistic: str) -> cloudwatch.Metric:
        """Return the milliseconds from sending a request to its answer."""
        return self._own(LATENCY_METRIC, statistic, statistic)

    def violations(self) -> cloudwatch.Metric:
        """Return the number of requests, slots and appointments that break an invariant, by the night's audit."""
        return audit_violations(self.stage)

    def _own(self, name: str, statistic: str, label: str) -> cloudwatch.Metric:
        return metric(namespace(self.stage), name, {"service": SERVICE}, statistic, label)


def audit_violations(stage: str) -> cloudwatch.Metric:
    """Return the metric that the audit's state machine writes, once a night."""
    return metric(namespace(stage), VIOLATIONS_METRIC, {}, "Maximum", "violations")


def metric(
    space: str, name: str, dimensions: Mapping[str, str], statistic: str, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric over a minute, labelled with its name unless a label is given."""
    return cloudwatch.Metric(
        namespace=space,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        label=label or name,
        period=Duration.minutes(1),
    )
