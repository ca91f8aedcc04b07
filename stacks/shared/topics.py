"""The topic that alarms and the audit publish to."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


def named_topic(scope: Construct, construct_id: str, arn: str) -> sns.ITopic | None:
    """Return the topic of `-c alarm_topic_arn=...`; None without it. Its owner keeps its policy and its key."""
    return sns.Topic.from_topic_arn(scope, construct_id, arn) if arn else None


def new_topic(scope: Construct, construct_id: str, *, stage: str, key: kms.Key) -> sns.ITopic:
    """Return a new topic, encrypted and TLS only. `Alarms` lets the alarms of this account publish to it."""
    return sns.Topic(scope, construct_id, display_name=f"Oneslot {stage}", master_key=key, enforce_ssl=True)
