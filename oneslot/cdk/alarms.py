"""Alarms: each has a condition, a sentence for who is woken, a runbook, and a meaning for silence.

The thresholds that depend on a consumer's traffic are in `Thresholds`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from oneslot.cdk.metrics import OLDEST_UNSENT, ConsumerMetrics, metric
from oneslot.cdk.numbers import HOUR, Numbers, Thresholds, dead_letter_age_seconds, explained_minutes, stalled_minutes
from oneslot.cdk.rights import accept, alarm_service, let_alarms_use

WINDOW_MINUTES = 5
"""Counts are added over this window: long enough to tell a pattern from one event, short enough to act."""

RUNBOOKS = "oneslot docs runbooks"
"""The command for the page with a section for each alarm, named like it. A test checks that each one exists."""


@dataclass(frozen=True, kw_only=True)
class AlarmCondition:
    """A condition that wakes someone.

    Attributes:
        name: of the alarm and its runbook.
        means: one sentence for the engineer who reads it at 3 a.m.
        above: the highest value that is still well.
        periods: the number of values in a row, each over one period of the metric, that must be above it.
        silence: the meaning of missing values.
        part: which alarm of several with this name and runbook, from 1.
    """

    name: str
    means: str
    metric: cloudwatch.IMetric
    above: float
    periods: int = 1
    silence: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING
    part: int = 1


def define_alarms(
    scope: Construct,
    watched: list[AlarmCondition],
    topic: sns.ITopic | None,
    silent: str = "whom to notify is the account's choice; without a topic the alarm is seen in CloudWatch",
) -> list[cloudwatch.Alarm]:
    """Define and return one CloudWatch alarm for each condition. It notifies `topic` when it starts and when it ends.

    Args:
        silent: why they notify no one, if `topic` is None.
    """
    scope = Construct(scope, "Alarms")
    if topic:
        _let_publish(topic, scope)
    alarms = []
    for condition in watched:
        alarm = cloudwatch.Alarm(
            scope,
            "".join(word.capitalize() for word in condition.name.split("-")) + str(condition.part).removeprefix("1"),
            alarm_description=f"{condition.means} What to do: {RUNBOOKS}#{condition.name}",
            metric=condition.metric,
            threshold=condition.above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=condition.periods,
            datapoints_to_alarm=condition.periods,
            treat_missing_data=condition.silence,
        )
        alarms.append(alarm)
        if topic:
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
        else:
            accept(alarm, {"HIPAA.Security-CloudWatchAlarmAction": silent})
    return alarms


def _let_publish(topic: sns.ITopic, scope: Construct) -> None:
    """Let this account's alarms publish to the topic.

    SNS allows it until the topic gets a policy of its own, such as one that enforces TLS. An imported topic has none here.
    """
    if topic.node.try_find_child("Policy"):
        topic.add_to_resource_policy(
            iam.PolicyStatement(principals=[alarm_service(scope)], actions=["sns:Publish"], resources=[topic.topic_arn])
        )
    if topic.master_key:
        let_alarms_use(topic.master_key, scope)


def over_window(metric: cloudwatch.Metric) -> cloudwatch.Metric:
    """Return the metric over `WINDOW_MINUTES`."""
    return metric.with_(period=Duration.minutes(WINDOW_MINUTES))


MOST_METRICS = 10
"""CloudWatch's limit for the metrics of one alarm."""


def conditions(measures: ConsumerMetrics, thresholds: Thresholds, numbers: Numbers) -> list[AlarmCondition]:
    """Return the conditions that wake someone."""
    minutes, explained = stalled_minutes(numbers), explained_minutes(numbers)
    cause = (
        "longer than one failing message or one long job explains."
        if explained <= minutes
        else f"CloudWatch's longest. One failing message or one long job can be the cause: they take up to {explained} minutes."
    )
    return [
        AlarmCondition(
            name="dead-letters",
            means="Messages are in the dead-letter queue: they ran out of receives or were quarantined, and wait for a person.",
            metric=measures.dead_letters(),
            above=0,
            # SQS may stop reporting a queue that was unused for six hours. Its messages are still there.
            silence=cloudwatch.TreatMissingData.IGNORE,
        ),
        AlarmCondition(
            name="dead-letter-age",
            means=f"A dead letter is {dead_letter_age_seconds(numbers) // HOUR} hours old: SQS soon deletes it unseen.",
            metric=measures.dead_letter_age(),
            above=dead_letter_age_seconds(numbers),
            # No value means no dead letter, or a queue that SQS stopped reporting until the next look at it.
        ),
        AlarmCondition(
            name="oldest-message",
            means=f"A request has waited for more than {thresholds.alarm_oldest_message_seconds} s: the consumer is behind.",
            metric=measures.queue("ApproximateAgeOfOldestMessage"),
            above=thresholds.alarm_oldest_message_seconds,
            periods=3,
        ),
        AlarmCondition(
            name="stalled",
            means=f"The queue holds messages and not one was finished for {minutes} minutes, {cause}",
            metric=stalled(measures),
            above=0,
            periods=minutes,
        ),
        AlarmCondition(
            name="paused",
            means="An operator has paused the consumer: `oneslot status` says who and why.",
            metric=measures.paused(),
            above=0,
            # The metric has one value at the pause and one at its end. The alarm keeps its state in between.
            silence=cloudwatch.TreatMissingData.IGNORE,
        ),
        *_counts(measures, thresholds),
    ]


def relay_conditions(namespace: str) -> list[AlarmCondition]:
    """Return the condition of a relay: messages wait in the ledger, which are late and not lost, or nothing looks for them."""
    return [
        AlarmCondition(
            name="relay-behind",
            means="Messages that follow a commit have waited for ten minutes: a target refuses them, or the relay is off.",
            metric=metric(namespace, OLDEST_UNSENT, {}, "Maximum", "age of unsent messages"),
            above=600,
            periods=5,
            # The relay looks each minute, whether anything waits or not.
            silence=cloudwatch.TreatMissingData.BREACHING,
        )
    ]


def canary_conditions(measures: ConsumerMetrics, version: str) -> list[AlarmCondition]:
    """Return the conditions that roll a version back: one failure of it, and none of the version before.

    They begin with a faulty version, and no other version's failures keep its deployment from starting. A tenth of a quiet
    queue's messages is few, so more than one failure would often not come.
    """
    return [
        AlarmCondition(
            name="function-errors",
            means="The new version crashes, times out or cannot start.",
            metric=over_window(measures.errors_of_version(version)),
            above=0,
        ),
        AlarmCondition(
            name="failed-deliveries",
            means="Deliveries fail inside the new version.",
            metric=over_window(measures.failed_in_version(version)),
            above=0,
        ),
    ]


def _counts(measures: ConsumerMetrics, thresholds: Thresholds) -> list[AlarmCondition]:
    """Return the conditions on counts over `WINDOW_MINUTES`."""
    throttles = [*measures.tables("ReadThrottleEvents").values(), *measures.tables("WriteThrottleEvents").values()]
    return [
        AlarmCondition(
            name="function-errors",
            means="The consumer crashes, times out or cannot start, again and again.",
            metric=over_window(measures.function("Errors")),
            above=3,  # the protocol handles single crashes; a fourth in five minutes is a pattern
        ),
        AlarmCondition(
            name="function-throttles",
            means="Lambda refuses to run the consumer: the account's concurrency is used up.",
            metric=over_window(measures.function("Throttles")),
            above=10,  # the mapping's own limit causes none, so ten are other functions' traffic
        ),
        AlarmCondition(
            name="failed-deliveries",
            means="Deliveries fail inside a consumer that runs: a right, a table or the code is broken.",
            metric=over_window(measures.deliveries("failed")),
            above=thresholds.alarm_failed_deliveries,
        ),
        AlarmCondition(
            # The alarm on dead letters cannot say so: it goes off with the first, and stays until a person has seen to it.
            name="quarantined-deliveries",
            means="Many messages at once cannot be processed and are set aside: a producer sends something wrong or new.",
            metric=over_window(measures.deliveries("quarantined")),
            above=thresholds.alarm_quarantined_deliveries,
        ),
        *_over_tables(
            name="table-throttles",
            means="DynamoDB throttles a table: a hot partition, or traffic that grew faster than the table did.",
            label="throttles",
            metrics=throttles,
            above=20,  # a table that splits a partition throttles a few requests, for seconds
        ),
        *_over_tables(
            name="transaction-conflicts",
            means="Many transactions meet on the same rows: requests contend for them more than decisions avoid.",
            label="conflicts",
            metrics=list(measures.tables("TransactionConflict").values()),
            above=thresholds.alarm_transaction_conflicts,
        ),
    ]


def stalled(measures: ConsumerMetrics) -> cloudwatch.MathExpression:
    """Return 1 for a minute in which the queue held messages, waiting or in flight, and none was deleted; else 0 or less.

    The queue's own metrics also show a consumer that does not start. SQS reports the waiting messages of every queue in use,
    and the other two metrics only above 0, so these are filled. A minute without any report has no value rather than 0: the
    newest minute is reported late, and a 0 there would break every row of values.
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


def _over_tables(
    *, name: str, means: str, label: str, metrics: list[cloudwatch.Metric], above: float
) -> Iterator[AlarmCondition]:
    """Yield a condition for every ten metrics, as many as CloudWatch adds up in an alarm."""
    for start in range(0, len(metrics), MOST_METRICS):
        yield AlarmCondition(
            name=name,
            means=means,
            metric=_sum(label, metrics[start : start + MOST_METRICS]),
            above=above,
            part=start // MOST_METRICS + 1,
        )


def _sum(name: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.MathExpression:
    terms = {f"m{number}": over_window(metric) for number, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({term}, 0)" for term in terms),
        using_metrics=dict(terms),
        label=name,
        period=Duration.minutes(WINDOW_MINUTES),
    )
