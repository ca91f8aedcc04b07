"""The conditions of a consumer's alarms. The thresholds that depend on its traffic are in `Thresholds`."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from oneslot.cdk.monitoring.alarms import WINDOW_MINUTES, AlarmCondition, over_window
from oneslot.cdk.monitoring.metrics import OLDEST_UNSENT, ConsumerMetrics, metric
from oneslot.cdk.numbers import (
    HOUR,
    Numbers,
    Thresholds,
    dead_letter_age_seconds,
    explained_minutes,
    stalled_minutes,
)

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
