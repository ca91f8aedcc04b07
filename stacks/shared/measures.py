"""The metrics of a deployed stage: the consumer's, what its handler adds, and the audit's.

The handler's metrics have one dimension, the service, and live in a namespace of the stage: each costs once, whatever the
traffic.
"""

from aws_cdk import aws_cloudwatch as cloudwatch

from oneslot.cdk import metrics
from oneslot.cdk.metrics import ConsumerMetrics, metric
from stacks.shared.deployed import Deployed

SERVICE = "appointments"
VIOLATIONS_METRIC = "AuditViolations"
LATENCY_METRIC = "SentToDone"
OUTCOMES = ("booked", "waitlist", "cancelled", "refused", *metrics.OUTCOMES)
"""The outcomes of a delivery. The handler counts each as `Deliveries` + the outcome, capitalised."""


def namespace(stage: str) -> str:
    """Return the CloudWatch namespace of a stage's own metrics, so two stages in one account stay apart."""
    return f"Oneslot/{stage}"


def measures(deployed: Deployed, stage: str) -> ConsumerMetrics:
    """Return the metrics of a deployed stage's consumer."""
    return ConsumerMetrics(
        queue_name=deployed.output("QueueName"),
        dead_letter_queue_name=deployed.output("DeadLetterQueueName"),
        function_name=deployed.output("ConsumerFunctionName"),
        table_names=deployed.table_names(),
        namespace=namespace(stage),
        dimensions={"service": SERVICE},
    )


def audit_violations(stage: str) -> cloudwatch.Metric:
    """Return the requests, slots and appointments that break an invariant; the audit writes the metric once a night."""
    return metric(namespace(stage), VIOLATIONS_METRIC, {}, "Maximum", "violations")
