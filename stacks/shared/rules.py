"""The rules that every stack is held to, and how one finding is accepted, with its reason, beside the resource."""

from __future__ import annotations

from aws_cdk import Acknowledgment, CfnElement, Stack, Validations
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

AWS_SOLUTIONS = "AwsSolutions"
HIPAA = "HIPAA.Security"


def accept(construct: IConstruct, findings: dict[str, str]) -> None:
    """Accept these findings on this construct and what is in it.

    `findings`: the rule's name as the report has it, e.g. `AwsSolutions-SQS3` → why it is right here.
    """
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=f"{rule.partition('-')[0]}::{rule}", reason=why) for rule, why in findings.items())
    )


def accept_wildcards(role: IConstruct, resources: dict[str, str]) -> None:
    """Accept that a role's right is on more than one resource: the resource as the report writes it → why."""
    accept(role, {f"{AWS_SOLUTIONS}-IAM5[Resource::{resource}]": why for resource, why in resources.items()})


def objects_in_report(bucket: s3.Bucket, path: str) -> str:
    """How the report writes the ARN of objects in a bucket."""
    resource = bucket.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError("a bucket's default child is its CloudFormation resource")
    return f"<{Stack.of(bucket).get_logical_id(resource)}.Arn>/{path}"
