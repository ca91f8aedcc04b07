"""A key of a stage's own, and the topic that it names."""

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from oneslot.cdk.resources import removal_policy


def customer_managed_key(scope: Construct, construct_id: str, *, description: str, retain: bool) -> kms.Key:
    """Return a symmetric key that rotates each year, with its stack's name as alias."""
    key = kms.Key(
        scope,
        construct_id,
        description=description,
        enable_key_rotation=True,
        removal_policy=removal_policy(retain=retain),
    )
    # Deleted with its stack, so the next one of that name can have it.
    key.add_alias(f"alias/{Stack.of(scope).stack_name}")
    return key


def named_topic(scope: Construct, construct_id: str, arn: str) -> sns.ITopic | None:
    """Return the topic of the setting `alarm_topic_arn`; None without it. Its owner keeps its policy and its key."""
    return sns.Topic.from_topic_arn(scope, construct_id, arn) if arn else None
