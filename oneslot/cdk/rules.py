"""Findings of cdk-nag's rules, each accepted beside its resource with a reason. Without cdk-nag they are ignored."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


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
