"""The metrics of a deployed consumer: AWS's own of the queue, the function and the tables, and counts of its deliveries.

AWS's own cost nothing. Each count costs once, whatever the traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

ALIAS = "live"
"""The name that the queue invokes, where versions are published."""
DELIVERIES = "Deliveries"
FAILED_BY_VERSION = "DeliveriesFailedByVersion"
VERSION, VERSION_FIELD = "version", "function_version"
"""The dimension of that count, and the field of a delivery's line that has it."""
OUTCOMES = ("duplicate", "busy", "quarantined", "fenced", "failed")
"""The library's outcomes of a delivery. A decision has outcomes of its own beside them."""
PAUSED_NAMESPACE, PAUSED = "Oneslot", "Paused"
"""What `oneslot pause` sets to 1, and `oneslot resume` to 0, for the consumer's function."""
OLDEST_UNSENT = "OldestUnsentSeconds"
"""The age of the oldest message that follows a commit and has not gone, by each look of the relay."""


@dataclass(frozen=True, kw_only=True)
class ConsumerMetrics:
    """The metrics of one consumer, each as a sum or maximum over a minute unless stated otherwise.

    Attributes:
        table_names: the tables' names by what they hold.
        namespace, dimensions: where the counts of deliveries are.
    """

    queue_name: str
    dead_letter_queue_name: str
    function_name: str
    table_names: Mapping[str, str]
    namespace: str
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def queue(self, name: str, statistic: str = "Maximum", label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of the queue."""
        return metric("AWS/SQS", name, {"QueueName": self.queue_name}, statistic, label)

    def dead_letters(self, label: str | None = None) -> cloudwatch.Metric:
        """Return the messages in the dead-letter queue. SQS's count of sent messages misses what the redrive policy moved."""
        dimensions = {"QueueName": self.dead_letter_queue_name}
        return metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", dimensions, "Maximum", label)

    def dead_letter_age(self) -> cloudwatch.Metric:
        """Return the seconds for which the oldest dead letter has been in the dead-letter queue."""
        dimensions = {"QueueName": self.dead_letter_queue_name}
        return metric("AWS/SQS", "ApproximateAgeOfOldestMessage", dimensions, "Maximum", "age of dead letters")

    def function(self, name: str, statistic: str = "Sum", label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of the function."""
        return metric("AWS/Lambda", name, {"FunctionName": self.function_name}, statistic, label)

    def errors_of_version(self, version: str) -> cloudwatch.Metric:
        """Return the errors of one version, while the alias shares the batches among two."""
        dimensions = {
            "FunctionName": self.function_name,
            "Resource": f"{self.function_name}:{ALIAS}",
            "ExecutedVersion": version,
        }
        return metric("AWS/Lambda", "Errors", dimensions, "Sum", "errors of the new version")

    def failed_in_version(self, version: str) -> cloudwatch.Metric:
        """Return the failed deliveries of one version, as `count_failures_by_version` counts them."""
        return metric(self.namespace, FAILED_BY_VERSION, {VERSION: version}, "Sum", "failures of the new version")

    def paused(self) -> cloudwatch.Metric:
        """Return 1 after `oneslot pause`, 0 after `oneslot resume`; it has a value only when one of them runs."""
        return metric(PAUSED_NAMESPACE, PAUSED, {"FunctionName": self.function_name}, "Minimum")

    def tables(self, name: str) -> dict[str, cloudwatch.Metric]:
        """Return a metric of each table, by what the table holds."""
        return {
            holds: metric("AWS/DynamoDB", name, {"TableName": table}, "Sum", f"{holds}: {name}")
            for holds, table in self.table_names.items()
        }

    def deliveries(self, outcome: str = "") -> cloudwatch.Metric:
        """Return the number of deliveries with this outcome; of all without one."""
        return self.own(deliveries_metric(outcome), "Sum", outcome or "deliveries")

    def own(self, name: str, statistic: str, label: str) -> cloudwatch.Metric:
        """Return a metric of the consumer's own namespace."""
        return metric(self.namespace, name, self.dimensions, statistic, label)


def deliveries_metric(outcome: str) -> str:
    """Return the metric that counts deliveries with this outcome, e.g. `DeliveriesDuplicate`; all without one."""
    return f"{DELIVERIES}{outcome.capitalize()}"


def count_deliveries(scope: Construct, log_group: logs.ILogGroup, namespace: str) -> None:
    """Count the lines of the delivery log by outcome, so that the function makes no call for its metrics."""
    for outcome in ("", *OUTCOMES):
        logs.MetricFilter(
            scope,
            deliveries_metric(outcome),
            log_group=log_group,
            filter_pattern=_lines(outcome),
            metric_namespace=namespace,
            metric_name=deliveries_metric(outcome),
            metric_value="1",
        )


def count_failures_by_version(scope: Construct, log_group: logs.ILogGroup, namespace: str) -> None:
    """Count the failed deliveries of each version of the function."""
    logs.MetricFilter(
        scope,
        FAILED_BY_VERSION,
        log_group=log_group,
        filter_pattern=_lines("failed"),
        metric_namespace=namespace,
        metric_name=FAILED_BY_VERSION,
        metric_value="1",
        dimensions={VERSION: f"$.{VERSION_FIELD}"},
    )


def _lines(outcome: str) -> logs.IFilterPattern:
    """Return the pattern of the delivery log's lines with this outcome; of all without one."""
    line = logs.FilterPattern.string_value("$.message", "=", "delivery")
    if not outcome:
        return line
    return logs.FilterPattern.all(line, logs.FilterPattern.string_value("$.outcome", "=", outcome))


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
