"""Customer-managed keys, and who may use them."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.settings import Settings
from stacks.shared.removal import removal_policy


def customer_managed_key(scope: Construct, construct_id: str, *, settings: Settings, description: str) -> kms.Key:
    """A symmetric key that is rotated each year. Besides what the account's policies allow, CloudWatch Logs of this account
    may use it: a log group asks for the key by itself, in nobody's name.
    """
    key = kms.Key(
        scope,
        construct_id,
        description=description,
        enable_key_rotation=True,
        removal_policy=removal_policy(settings),
    )
    stack = Stack.of(scope)
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="CloudWatchLogs",
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )
    )
    return key
