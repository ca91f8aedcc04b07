"""Roles for services: who may assume them, their exact rights, and the reason for each wildcard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from oneslot.cdk.rules import accept, accept_wildcards

INLINE = "the rights are this one role's: shared with another they would have to fit both, and so be wider"


def service_role(
    scope: Construct,
    construct_id: str,
    service: str,
    policies: Mapping[str, iam.PolicyDocument],
    *,
    wildcards: Mapping[str, str] | None = None,
    only_this_account: bool = True,
) -> iam.Role:
    """Return a role for `service` (e.g. "glue"), with these named inline policies and no others.

    Args:
        wildcards: a resource of the policies with a wildcard, as the rules' report writes it → the reason.
        only_this_account: let the service assume the role only for this account. The service must name the account, and
            Lambda and Glue do not.
    """
    account = {"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}} if only_this_account else None
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=account),
        inline_policies=policies,
    )
    accept(role, {"HIPAA.Security-IAMNoInlinePolicy": INLINE})
    accept_wildcards(role, dict(wildcards or {}))
    return role


def document(*statements: iam.PolicyStatement) -> iam.PolicyDocument:
    """Return a policy of these statements."""
    return iam.PolicyDocument(statements=list(statements))


def allow(
    actions: list[str], *resources: str, only: Mapping[str, Mapping[str, str | Sequence[str]]] | None = None
) -> iam.PolicyStatement:
    """Return a statement that allows these actions on these resources, under the conditions `only`."""
    return iam.PolicyStatement(actions=actions, resources=list(resources), conditions=only)


def through(service: str, scope: Construct) -> dict[str, dict[str, str]]:
    """Return the condition that a key is used only through this service, e.g. "s3"."""
    return {"StringEquals": {"kms:ViaService": f"{service}.{Stack.of(scope).region}.amazonaws.com"}}
