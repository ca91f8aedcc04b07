"""Gradual deployment: a new version of the consumer gets a tenth of the batches first, and is rolled back if they fail."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oneslot.cdk.function import ALIAS
from oneslot.cdk.monitoring.alarms import Alarms, Condition
from oneslot.cdk.roles import allow, document, service_role

ROLLS_BACK = ("function-errors", "failed-deliveries")
"""The conditions that roll a deployment back: they begin with a faulty version, and end within minutes without it.

A deployment does not start while one holds. One that stays until an operator has acted, such as `dead-letters`, would block
every correction.
"""


class GradualDeployment(Construct):
    """A CodeDeploy group that moves `alias` to its new version: a tenth for five minutes, then the rest.

    The consumer's own alarms decide. Both versions work on the queue meanwhile, which the ledger allows.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        alias: lambda_.Alias,
        function: lambda_.IFunction,
        conditions: Sequence[Condition],
    ) -> None:
        """Define the group. `conditions`: the consumer's; those of `ROLLS_BACK` become alarms that notify no one."""
        super().__init__(scope, construct_id)
        watched = [condition for condition in conditions if condition.name in ROLLS_BACK]
        alarms = Alarms(
            self, "Alarms", conditions=watched, topic=None, silent="CodeDeploy reads it, and rolls the deployment back"
        ).alarms
        role = service_role(
            self,
            "Role",
            "codedeploy",
            {
                "Shift": document(
                    allow(
                        ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
                        function.function_arn,
                        # As text: the alias itself waits for this role.
                        f"{function.function_arn}:{ALIAS}",
                    )
                ),
                "Watch": document(allow(["cloudwatch:DescribeAlarms"], "*")),
            },
            wildcards={"*": "CodeDeploy describes alarms by their names, which the call takes no resource for"},
            only_this_account=False,  # no document says that CodeDeploy names the account
        )
        group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            application=codedeploy.LambdaApplication(self, "Application"),
            alias=alias,
            alarms=alarms,
            role=role.without_policy_updates(),
            deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
        )
        group.node.add_dependency(role)
