"""What is measured, by name: AWS's own figures of the queue, the function and the tables, and the handler's few.

The handler's metrics have one dimension, the service, and live in a namespace of the stage: each costs once, whatever the
traffic. AWS's own cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from stacks.audit.storage import UNDELIVERED
from stacks.shared.deployed import Deployed

SERVICE = "appointments"
VIOLATIONS_METRIC = "AuditViolations"
LATENCY_METRIC = "SentToDone"
OUTCOMES = ("booked", "waitlist", "cancelled", "refused", "duplicate", "busy", "quarantined", "fenced", "failed")
"""Of a delivery, as the handler counts them: `Deliveries` + the outcome, capitalised."""


def namespace(stage: str) -> str:
    """The CloudWatch namespace of a stage's own metrics: two stages in one account are not added up."""
    return f"Oneslot/{stage}"


@dataclass(frozen=True)
class Measures:
    """The metrics of one deployed stage, each as a sum or maximum over a minute unless said otherwise."""

    deployed: Deployed
    stage: str

    def queue(self, name: str, statistic: str = "Maximum", label: str | None = None) -> cloudwatch.Metric:
        """A figure of the request queue."""
        return _metric("AWS/SQS", name, {"QueueName": self.deployed.queue_name}, statistic, label)

    def dead_letters(self, label: str | None = None) -> cloudwatch.Metric:
        """What lies in the dead-letter queue now. Its count of what was sent there does not see redriven messages."""
        dimensions = {"QueueName": self.deployed.dead_letter_queue_name}
        return _metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dimensions, "Maximum", label)

    def function(self, name: str, statistic: str = "Sum", label: str | None = None) -> cloudwatch.Metric:
        """A figure of the consumer."""
        dimensions = {"FunctionName": self.deployed.output("ConsumerFunctionName")}
        return _metric("AWS/Lambda", name, dimensions, statistic, label)

    def tables(self, name: str) -> dict[str, cloudwatch.Metric]:
        """A figure of each table, by what the table holds."""
        return {
            holds: _metric("AWS/DynamoDB", name, {"TableName": table}, "Sum", f"{holds}: {name}")
            for holds, table in self.deployed.table_names().items()
        }

    def deliveries(self, outcome: str) -> cloudwatch.Metric:
        """Deliveries that ended so."""
        return self._own(f"Deliveries{outcome.capitalize()}", "Sum", outcome)

    def latency(self, statistic: str) -> cloudwatch.Metric:
        """Milliseconds from a request's sending to its answer."""
        return self._own(LATENCY_METRIC, statistic, statistic)

    def violations(self) -> cloudwatch.Metric:
        """Requests, slots and appointments of which the night's audit says that an invariant does not hold."""
        return audit_violations(self.stage)

    def _own(self, name: str, statistic: str, label: str) -> cloudwatch.Metric:
        return _metric(namespace(self.stage), name, {"service": SERVICE}, statistic, label)


def audit_violations(stage: str) -> cloudwatch.Metric:
    """What the audit's state machine writes, once a night."""
    return _metric(namespace(stage), VIOLATIONS_METRIC, {}, "Maximum", "violations")


def archive_delay(stream: str) -> cloudwatch.Metric:
    """Seconds for which the oldest line of the delivery log has waited in this stream of Firehose's."""
    return _metric("AWS/Firehose", "DeliveryToS3.DataFreshness", {"DeliveryStreamName": stream}, "Maximum", "waiting")


def set_aside(bucket: str) -> cloudwatch.Metric:
    """Objects that Firehose writes into the audit's bucket in place of lines of the delivery log."""
    dimensions = {"BucketName": bucket, "FilterId": UNDELIVERED}
    return _metric("AWS/S3", "PutRequests", dimensions, "Sum", "set aside")


def _metric(
    space: str, name: str, dimensions: Mapping[str, str], statistic: str, label: str | None
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=space,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        label=label or name,
        period=Duration.minutes(1),
    )
