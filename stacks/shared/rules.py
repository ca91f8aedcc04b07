"""The two packs of rules that every stack is held to. A finding is accepted beside its resource, with a reason."""

from __future__ import annotations

from aws_cdk import Acknowledgment, App, CfnElement, Stack, Validations
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks, HIPAASecurityChecks
from constructs import IConstruct


def add_rules(app: App) -> None:
    """Refuse to synthesise `app` if a stack breaks an AWS Solutions or a HIPAA Security rule."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), HIPAASecurityChecks(app))


def accept(construct: IConstruct, findings: dict[str, str]) -> None:
    """Accept findings on a construct and the constructs in it.

    `findings`: the rule's name as the report writes it, e.g. `AwsSolutions-SQS3` → the reason.
    """
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=f"{rule.partition('-')[0]}::{rule}", reason=why) for rule, why in findings.items())
    )


def accept_wildcards(role: IConstruct, resources: dict[str, str]) -> None:
    """Accept that a role's right covers several resources: the resource as the report writes it → the reason."""
    accept(role, {f"AwsSolutions-IAM5[Resource::{resource}]": why for resource, why in resources.items()})


def objects_in_report(bucket: s3.Bucket, path: str) -> str:
    """Return the ARN of objects in a bucket as the report writes it."""
    resource = bucket.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError("a bucket's default child is its CloudFormation resource")
    return f"<{Stack.of(bucket).get_logical_id(resource)}.Arn>/{path}"
