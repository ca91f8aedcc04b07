"""Statements of a key's policy for the services that use the key in their own name.

Tables and queues need none: DynamoDB and SQS use the key in their caller's name, and the caller has the right.
"""

from __future__ import annotations

from aws_cdk import Annotations, ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct


def let_logs_use(key: kms.IKey, scope: Construct) -> None:
    """Let CloudWatch Logs encrypt this account's log groups with the key; `scope` is in their stack."""
    stack = Stack.of(scope)
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    statement = iam.PolicyStatement(
        sid="CloudWatchLogs",
        principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
        actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        resources=["*"],
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )
    _add(key, statement, scope, "CloudWatch Logs (logs.REGION.amazonaws.com)", "or the log group cannot be created")


def let_alarms_use(key: kms.IKey, scope: Construct) -> None:
    """Let CloudWatch's alarms of this account publish to a topic that the key encrypts."""
    statement = iam.PolicyStatement(
        sid="Alarms",
        principals=[alarm_service(scope)],
        actions=["kms:Decrypt", "kms:GenerateDataKey*"],
        resources=["*"],
    )
    _add(key, statement, scope, "CloudWatch (cloudwatch.amazonaws.com)", "or no alarm reaches the topic")


def alarm_service(scope: Construct) -> iam.ServicePrincipal:
    """Return CloudWatch as the principal of this account's alarms."""
    account = {"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
    return iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=account)


def _add(key: kms.IKey, statement: iam.PolicyStatement, scope: Construct, service: str, otherwise: str) -> None:
    """Add the statement to the key's policy. CDK drops one that is there already, and cannot change an imported key's."""
    if not key.add_to_resource_policy(statement).statement_added:
        Annotations.of(scope).add_warning_v2(
            f"oneslot:{statement.sid}",
            f"{key.node.path} is an imported key, whose policy cannot be changed here. Let {service} use it, {otherwise}: "
            "`oneslot docs construct` has the actions.",
        )
