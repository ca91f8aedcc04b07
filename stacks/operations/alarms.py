"""The alarms of a stage. Each is named after its runbook, says what it means, and cannot be blind to what it watches for."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.audit.delivery_archive import BUFFER_SECONDS
from stacks.settings import Settings
from stacks.shared.measures import Measures
from stacks.shared.rules import accept
from stacks.shared.runbooks import runbook

WINDOW_MINUTES = 5
"""Over which counts are added: long enough to tell a pattern from one event, short enough to act."""
ARCHIVE_DELAY_SECONDS = 3 * BUFFER_SECONDS
"""After which a line of the delivery log should be in the audit's bucket, and Firehose have tried more than once."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """When to wake someone.

    Attributes:
        name: of the alarm and its runbook.
        means: one sentence for the person who reads it at 3 a.m.
        above: the highest value that is still well.
        periods: how many values in a row, each over one period of the metric, must be above it.
        silence: what no value at all means.
    """

    name: str
    means: str
    metric: cloudwatch.IMetric
    above: float
    periods: int = 1
    silence: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING


class Alarms(Construct):
    """One CloudWatch alarm for each condition, telling `topic` when it starts and when it ends."""

    def __init__(
        self, scope: Construct, construct_id: str, *, conditions: list[Condition], topic: sns.ITopic | None
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarms = [self._alarm(condition, topic) for condition in conditions]

    def _alarm(self, condition: Condition, topic: sns.ITopic | None) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            "".join(word.capitalize() for word in condition.name.split("-")),
            alarm_description=f"{condition.means} What to do: {runbook(condition.name)}",
            metric=condition.metric,
            threshold=condition.above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=condition.periods,
            datapoints_to_alarm=condition.periods,
            treat_missing_data=condition.silence,
        )
        if topic:
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
        else:
            accept(
                alarm,
                {
                    "HIPAA.Security-CloudWatchAlarmAction": (
                        "whom to tell is the account's choice: -c alarm_topic_arn=...; without one the alarm is seen on "
                        "the dashboard"
                    )
                },
            )
        return alarm


def conditions(measures: Measures, settings: Settings) -> list[Condition]:
    """What must not be, on a stage. The thresholds and their reasons are in the settings."""
    throttles = [*measures.tables("ReadThrottleEvents").values(), *measures.tables("WriteThrottleEvents").values()]
    return [
        Condition(
            name="dead-letters",
            means="Messages lie in the dead-letter queue: requests that were given up or set aside, and wait for a person.",
            metric=measures.dead_letters(),
            above=0,
            # SQS may stop reporting a queue that nobody touched for six hours. What lies there lies there still.
            silence=cloudwatch.TreatMissingData.IGNORE,
        ),
        Condition(
            name="oldest-message",
            means=f"A request has waited for more than {settings.alarm_oldest_message_seconds} s: the consumer is behind.",
            metric=measures.queue("ApproximateAgeOfOldestMessage"),
            above=settings.alarm_oldest_message_seconds,
            periods=3,
        ),
        Condition(
            name="stalled",
            means=f"The queue holds messages and not one was finished for {settings.stalled_minutes} minutes.",
            metric=stalled(measures),
            above=0,
            periods=settings.stalled_minutes,
        ),
        Condition(
            name="function-errors",
            means="The consumer crashes, times out or cannot start, again and again.",
            metric=_over_window(measures.function("Errors")),
            above=settings.alarm_function_errors,
        ),
        Condition(
            name="function-throttles",
            means="Lambda refuses to run the consumer: the account's concurrency is used up.",
            metric=_over_window(measures.function("Throttles")),
            above=settings.alarm_function_throttles,
        ),
        Condition(
            name="failed-deliveries",
            means="Deliveries fail inside a consumer that runs: a right, a table or the code is broken.",
            metric=_over_window(measures.deliveries("failed")),
            above=settings.alarm_failed_deliveries,
        ),
        Condition(
            name="quarantined-deliveries",
            means="Many messages at once cannot be processed and are set aside: a producer sends something wrong or new.",
            # The alarm on dead letters cannot say so: it rings with the first, and stays until a person has seen to it.
            metric=_over_window(measures.deliveries("quarantined")),
            above=settings.alarm_quarantined_deliveries,
        ),
        Condition(
            name="table-throttles",
            means="DynamoDB throttles a table: a hot partition, or traffic that grew faster than the table did.",
            metric=_sum("throttles", throttles),
            above=settings.alarm_table_throttles,
        ),
        Condition(
            name="transaction-conflicts",
            means="Many transactions meet on the same rows: slots are fought over more than the slot choice allows for.",
            metric=_sum("conflicts", list(measures.tables("TransactionConflict").values())),
            above=settings.alarm_transaction_conflicts,
        ),
    ]


def audit_conditions(
    *,
    violations: cloudwatch.IMetric,
    succeeded: cloudwatch.IMetric,
    delay: cloudwatch.Metric,
    set_aside: cloudwatch.Metric,
    settings: Settings,
) -> list[Condition]:
    """What must not be, on a stage with the audit."""
    hours = settings.audit_missing_hours
    return [
        Condition(
            name="invariant-violated",
            means="The nightly audit found requests that did not take effect exactly once, or are lost or stuck.",
            metric=violations,
            above=0,
            # One value a night: it holds until the next, or the alarm would say a minute later that all is well.
            silence=cloudwatch.TreatMissingData.IGNORE,
        ),
        Condition(
            name="audit-missing",
            means=f"No audit has ended with a verdict for {hours} hours: nobody knows whether all is right.",
            metric=cloudwatch.MathExpression(
                expression="IF(FILL(audits, 0) > 0, 0, 1)",
                using_metrics={"audits": succeeded},
                label="no audit",
                period=Duration.hours(1),
            ),
            above=0,
            periods=hours,
            silence=cloudwatch.TreatMissingData.BREACHING,
        ),
        Condition(
            name="unarchived-deliveries",
            # Firehose gives a line up after a day. A night without them is called sound, with a note at most.
            means="The delivery log does not arrive in the audit's bucket: nights are judged without what it tells.",
            metric=_over_window(delay),
            above=ARCHIVE_DELAY_SECONDS,
            periods=3,
        ),
        Condition(
            name="undelivered-lines",
            # Firehose calls that delivered: the metric above is well.
            means="Firehose set lines of the delivery log aside that it could not unpack: no night is judged by them.",
            metric=_over_window(set_aside),
            above=0,
        ),
    ]


def stalled(measures: Measures) -> cloudwatch.MathExpression:
    """1 in a minute in which the queue held messages, waiting or in flight, and none was deleted; else 0 or less.

    By the queue's own figures, so a consumer that does not even start is seen as well. SQS reports what waits of every queue
    in use, and the other two only where there is some, so these are filled. A minute of which nothing is reported has no value:
    figures come late, and a newest minute that is filled with 0 each time would keep the alarm from seeing enough in a row.
    """
    held, finished = "IF(visible + FILL(inflight, 0) > 0, 1, 0)", "IF(FILL(deleted, 0) > 0, 1, 0)"
    return cloudwatch.MathExpression(
        expression=f"IF(visible >= 0, {held} - {finished}, 0)",
        using_metrics={
            "visible": measures.queue("ApproximateNumberOfMessagesVisible"),
            "inflight": measures.queue("ApproximateNumberOfMessagesNotVisible"),
            "deleted": measures.queue("NumberOfMessagesDeleted", "Sum"),
        },
        label="stalled",
        period=Duration.minutes(1),
    )


def _over_window(metric: cloudwatch.Metric) -> cloudwatch.IMetric:
    return metric.with_(period=Duration.minutes(WINDOW_MINUTES))


def _sum(name: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.MathExpression:
    terms = {f"m{number}": _over_window(metric) for number, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({term}, 0)" for term in terms),
        using_metrics=dict(terms),
        label=name,
        period=Duration.minutes(WINDOW_MINUTES),
    )
