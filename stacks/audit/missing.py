"""The alarm on a night without a verdict. It stays quiet until the first night."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from oneslot.cdk.alarms import RUNBOOKS
from oneslot.cdk.resources import name_in_this_stack
from oneslot.cdk.rights import accept

MISSING_HOURS = 44
"""A day, and the longest night: 20 hours (nightly.asl.json).

A verdict may come as soon as one night begins, and the next one a day and a whole night later. A night that fails notifies
at once; this alarm is for one that never began or was cut off.
"""


class MissingAudit(Construct):
    """A composite alarm: no verdict for `MISSING_HOURS`, and there was a first one.

    Without the second part it would start minutes after the first deployment, because CloudWatch cannot know how long the
    hours without data were there. The first night sends a notification if it fails; if it never begins, nothing does, so
    the operator looks (docs/do/deploy.md#check-the-first-night).
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, succeeded: cloudwatch.IMetric, topic: sns.ITopic
    ) -> None:
        """Define the alarms. `succeeded`: the state machine's executions that succeeded, over an hour."""
        super().__init__(scope, construct_id)
        overdue = cloudwatch.Alarm(
            self,
            "Overdue",
            alarm_description=f"No audit has ended with a verdict for {MISSING_HOURS} hours. Read by audit-missing.",
            metric=cloudwatch.MathExpression(
                expression="IF(FILL(audits, 0) > 0, 0, 1)",
                using_metrics={"audits": succeeded},
                label="no audit",
                period=Duration.hours(1),
            ),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=MISSING_HOURS,
            datapoints_to_alarm=MISSING_HOURS,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        began = cloudwatch.Alarm(
            self,
            "Began",
            alarm_description="OK once an audit has ended, and for ever: no count is below 0. Read by audit-missing.",
            metric=succeeded,
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=1,
            # Without data it keeps its state: INSUFFICIENT_DATA before the first audit, OK after it.
            treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
        )
        for part in (overdue, began):
            accept(part, {"HIPAA.Security-CloudWatchAlarmAction": "the composite alarm over it notifies"})
        states = cloudwatch.AlarmState
        alarm = cloudwatch.CompositeAlarm(
            self,
            "Alarm",
            # CloudFormation begins every other alarm's name with the stack's, by which they are found.
            composite_alarm_name=name_in_this_stack("audit-missing"),
            alarm_description=f"No audit has ended with a verdict for {MISSING_HOURS} hours, so losses and duplicates go "
            f"unnoticed. What to do: {RUNBOOKS}#audit-missing",
            alarm_rule=cloudwatch.AlarmRule.all_of(
                cloudwatch.AlarmRule.from_alarm(overdue, states.ALARM),
                cloudwatch.AlarmRule.from_alarm(began, states.OK),
            ),
        )
        alarm.add_alarm_action(actions.SnsAction(topic))
        alarm.add_ok_action(actions.SnsAction(topic))
