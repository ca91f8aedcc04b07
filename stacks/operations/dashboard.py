"""One dashboard, three questions: is it keeping up, is it right, what is failing."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from oneslot.cdk.metrics import ConsumerMetrics
from stacks.shared.measures import LATENCY_METRIC, OUTCOMES, audit_violations

WIDTH, HEIGHT = 8, 6  # three graphs in a row of CloudWatch's 24 columns


class Dashboard(Construct):
    """A row of graphs for each question, below the state of all alarms."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: str,
        measures: ConsumerMetrics,
        alarms: Sequence[cloudwatch.IAlarm],
        oldest_message_seconds: int,
        audit: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        dashboard = cloudwatch.Dashboard(
            self, "Dashboard", default_interval=Duration.hours(3), period_override=cloudwatch.PeriodOverride.AUTO
        )
        dashboard.add_widgets(
            cloudwatch.AlarmStatusWidget(title=f"Oneslot {stage}", alarms=list(alarms), width=24, height=3)
        )
        for question, graphs in (
            ("Is it keeping up?", _keeping_up(measures, oldest_message_seconds)),
            ("Is it right?", _right(measures, stage if audit else None)),
            ("What is failing?", _failing(measures)),
        ):
            dashboard.add_widgets(cloudwatch.TextWidget(markdown=f"## {question}", width=24, height=1))
            dashboard.add_widgets(*graphs)


def _keeping_up(measures: ConsumerMetrics, oldest_message_seconds: int) -> list[cloudwatch.GraphWidget]:
    limit = cloudwatch.HorizontalAnnotation(value=oldest_message_seconds, label="alarm")
    return [
        _graph(
            "Messages: sent, finished, waiting, in flight",
            [
                measures.queue("NumberOfMessagesSent", "Sum", "sent"),
                measures.queue("NumberOfMessagesDeleted", "Sum", "finished"),
                measures.queue("ApproximateNumberOfMessagesVisible", label="waiting"),
                measures.queue("ApproximateNumberOfMessagesNotVisible", label="in flight"),
            ],
        ),
        cloudwatch.GraphWidget(
            title="Age of the oldest message, s",
            left=[measures.queue("ApproximateAgeOfOldestMessage", label="age")],
            left_annotations=[limit],
            left_y_axis=cloudwatch.YAxisProps(min=0),
            width=WIDTH,
            height=HEIGHT,
        ),
        _graph(
            "From sent to answered, ms", [measures.own(LATENCY_METRIC, share, share) for share in ("p50", "p95", "p99")]
        ),
    ]


def _right(measures: ConsumerMetrics, audited_stage: str | None) -> list[cloudwatch.GraphWidget]:
    by_outcome = [measures.deliveries(outcome) for outcome in OUTCOMES]
    graphs = [
        _graph("Deliveries by outcome (busy and duplicate are the protocol at work)", by_outcome, stacked=True),
        _graph(
            "Refused conditions (the mechanism at work; graphed, never an alarm)",
            list(measures.tables("ConditionalCheckFailedRequests").values()),
        ),
    ]
    if audited_stage:
        graphs.append(_graph("Violations found by the nightly audit", [audit_violations(audited_stage)]))
    return graphs


def _failing(measures: ConsumerMetrics) -> list[cloudwatch.GraphWidget]:
    return [
        _graph(
            "Dead letters, failed and fenced deliveries",
            [measures.dead_letters("dead letters"), measures.deliveries("failed"), measures.deliveries("fenced")],
        ),
        _graph(
            "Consumer: errors, throttles, running at once",
            [
                measures.function("Errors"),
                measures.function("Throttles"),
                measures.function("ConcurrentExecutions", "Maximum"),
            ],
        ),
        _graph(
            "Tables: throttled reads and writes, transaction conflicts",
            [
                metric
                for name in ("ReadThrottleEvents", "WriteThrottleEvents", "TransactionConflict")
                for metric in measures.tables(name).values()
            ],
        ),
    ]


def _graph(title: str, metrics: list[cloudwatch.Metric], *, stacked: bool = False) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        stacked=stacked,
        left_y_axis=cloudwatch.YAxisProps(min=0),
        width=WIDTH,
        height=HEIGHT,
    )
