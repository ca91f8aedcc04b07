"""Keys of a stage's own."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from oneslot.cdk.resources import removal_policy


def customer_managed_key(scope: Construct, construct_id: str, *, description: str, retain: bool) -> kms.Key:
    """Return a symmetric key that rotates each year, for the account and for its log groups, with its stack's name as alias.

    CloudWatch Logs uses the key of a log group in its own name, so the key's policy must allow it.
    """
    key = kms.Key(
        scope,
        construct_id,
        description=description,
        enable_key_rotation=True,
        removal_policy=removal_policy(retain=retain),
    )
    stack = Stack.of(scope)
    key.add_alias(f"alias/{stack.stack_name}")  # deleted with its stack, so the next one of that name can have it
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
