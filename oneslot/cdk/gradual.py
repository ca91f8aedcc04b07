"""Gradual deployment: a new version of the consumer gets a tenth of the batches first, and is rolled back if they fail."""

from __future__ import annotations

from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from oneslot.cdk.monitoring.alarms import Alarms
from oneslot.cdk.monitoring.conditions import canary_conditions
from oneslot.cdk.monitoring.metrics import ALIAS, ConsumerMetrics, count_failures_by_version
from oneslot.cdk.roles import allow, document, service_role


class GradualDeployment(Construct):
    """A CodeDeploy group that moves `alias` to its new version: a tenth for five minutes, then the rest.

    One failure of the new version rolls it back. Both versions work on the queue meanwhile, which the ledger allows.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        alias: lambda_.Alias,
        function: lambda_.IFunction,
        metrics: ConsumerMetrics,
        log_group: logs.ILogGroup,
    ) -> None:
        """Define the group, and the alarms that it reads. They notify no one."""
        super().__init__(scope, construct_id)
        count_failures_by_version(self, log_group, metrics.namespace)
        alarms = Alarms(
            self,
            "Alarms",
            conditions=canary_conditions(metrics, alias.version.version),
            topic=None,
            silent="CodeDeploy reads it, and rolls the deployment back",
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
