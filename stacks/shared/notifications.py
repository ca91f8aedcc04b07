"""Whom to tell: the topic that the context names, or one made for the audit."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.settings import Settings


def named_topic(scope: Construct, construct_id: str, *, settings: Settings) -> sns.ITopic | None:
    """The topic of `-c alarm_topic_arn=...`; None without it. Its policy and its key are its owner's business."""
    if not settings.alarm_topic_arn:
        return None
    return sns.Topic.from_topic_arn(scope, construct_id, settings.alarm_topic_arn)


def audit_topic(scope: Construct, construct_id: str, *, settings: Settings, key: kms.Key) -> sns.ITopic:
    """The named topic, else a new one, encrypted, TLS only, to which CloudWatch's alarms of this account may publish."""
    named = named_topic(scope, construct_id, settings=settings)
    if named:
        return named
    topic = sns.Topic(scope, construct_id, display_name=f"Oneslot {settings.stage}", master_key=key, enforce_ssl=True)
    cloudwatch = iam.ServicePrincipal(
        "cloudwatch.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": topic.stack.account}}
    )
    topic.add_to_resource_policy(
        iam.PolicyStatement(principals=[cloudwatch], actions=["sns:Publish"], resources=[topic.topic_arn])
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms", principals=[cloudwatch], actions=["kms:Decrypt", "kms:GenerateDataKey*"], resources=["*"]
        )
    )
    return topic
