"""Alarms: each has a condition, a sentence for who is woken, a runbook, and a meaning for silence."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from oneslot.cdk.keys import alarm_service, let_alarms_use
from oneslot.cdk.rules import accept

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


class Alarms(Construct):
    """One CloudWatch alarm for each condition. It notifies `topic` when it starts and when it ends."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        conditions: list[AlarmCondition],
        topic: sns.ITopic | None,
        silent: str = "whom to notify is the account's choice; without a topic the alarm is seen in CloudWatch",
    ) -> None:
        """Define the alarms. `silent`: why they notify no one, if `topic` is None."""
        super().__init__(scope, construct_id)
        self._silent = silent
        if topic:
            _let_publish(topic, self)
        self.alarms = [self._alarm(condition, topic) for condition in conditions]

    def _alarm(self, condition: AlarmCondition, topic: sns.ITopic | None) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            "".join(word.capitalize() for word in condition.name.split("-")) + str(condition.part).removeprefix("1"),
            alarm_description=f"{condition.means} What to do: {RUNBOOKS}#{condition.name}",
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
                {"HIPAA.Security-CloudWatchAlarmAction": self._silent},
            )
        return alarm


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
