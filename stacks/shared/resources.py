"""Properties that resources have in common: a key, a log group's retention, a name, and their end."""

from __future__ import annotations

from aws_cdk import ArnFormat, Aws, Fn, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.settings import Settings

_LOG_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1_827: logs.RetentionDays.FIVE_YEARS,
    3_653: logs.RetentionDays.TEN_YEARS,
}
"""CDK's names of `stacks.limits.LOG_RETENTION_DAYS`."""


def removal_policy(settings: Settings) -> RemovalPolicy:
    """Return `RETAIN` where the settings keep data, else `DESTROY`."""
    return RemovalPolicy.RETAIN if settings.retain_data else RemovalPolicy.DESTROY


def log_group(
    scope: Construct, construct_id: str, *, settings: Settings, key: kms.IKey | None = None, name: str | None = None
) -> logs.LogGroup:
    """Return a log group with the settings' retention, encrypted with `key`; CloudFormation names it without `name`."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=_LOG_RETENTION[settings.log_retention_days],
        encryption_key=key,
        removal_policy=removal_policy(settings),
    )


def name_in_this_stack(suffix: str, ending: str = "") -> str:
    """Return `<stack name>-<suffix>-<12 hex digits of the stack's id><ending>`.

    The name differs from that of a resource which a deleted stack of the same name left behind. Give a name only where
    two resources refer to each other: CloudFormation names the rest.
    """
    # arn:aws:cloudformation:region:account:stack/name/01234567-89ab-cdef-0123-456789abcdef
    stack_guid = Fn.select(2, Fn.split("/", Aws.STACK_ID))
    name = Fn.join("-", [Aws.STACK_NAME, suffix, Fn.select(4, Fn.split("-", stack_guid))])
    return f"{name}{ending}"


def customer_managed_key(scope: Construct, construct_id: str, *, settings: Settings, description: str) -> kms.Key:
    """Return a symmetric key that rotates each year, for the account and for its log groups.

    CloudWatch Logs uses the key of a log group in its own name, so the key's policy must allow it.
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
