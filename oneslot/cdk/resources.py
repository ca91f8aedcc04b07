"""Properties that resources have in common: a log group's retention, a name, and their end."""

import re
from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import Aws, Fn, IInspectable, Names, RemovalPolicy, Stack, Token, TreeInspector
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from oneslot.cdk.numbers import ContradictorySettings
from oneslot.cdk.rights import let_logs_use


def removal_policy(*, retain: bool) -> RemovalPolicy:
    """Return `RETAIN` for data that outlives its stack, else `DESTROY`."""
    return RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY


def log_group(
    scope: Construct,
    construct_id: str,
    *,
    days: int,
    retain: bool,
    key: kms.IKey | None = None,
    name: str | None = None,
) -> logs.LogGroup:
    """Return a log group with a retention of `days`, encrypted with `key`; CloudFormation names it without `name`."""
    if key:
        let_logs_use(key, scope)
    group = logs.LogGroup(
        scope, construct_id, log_group_name=name, encryption_key=key, removal_policy=removal_policy(retain=retain)
    )
    # As a number: CDK has a word for each.
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = days
    return group


def require_variable_name(what: str, name: str) -> None:
    """Raise `ContradictorySettings` unless the name that decisions use, of a table or a target, fits a variable's name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ContradictorySettings(
            f"the {what} {name!r} cannot name an environment variable; use small letters, digits and underscores"
        )


def name_in_this_stack(suffix: str, ending: str = "") -> str:
    """Return `<stack name>-<suffix>-<12 hex digits of the stack's id><ending>`.

    The name differs from that of a resource which a deleted stack of the same name left behind. Give a name only where
    two resources refer to each other: CloudFormation names the rest.
    """
    return f"{Fn.join('-', [Aws.STACK_NAME, suffix, _stack_digits()])}{ending}"


def unique_name(scope: Construct, longest: int) -> str:
    """Return `<the construct's path, within `longest` characters>-<12 hex digits of the stack's id>`, for the same reason."""
    return Fn.join("-", [path_name(scope, longest), _stack_digits()])


def path_name(scope: Construct, longest: int) -> str:
    """Return the construct's path as a name, shortened to `longest` characters."""
    return Names.unique_resource_name(scope, max_length=longest, separator="-")


def _stack_digits() -> str:
    # arn:aws:cloudformation:region:account:stack/name/01234567-89ab-cdef-0123-456789abcdef
    stack_guid = Fn.select(2, Fn.split("/", Aws.STACK_ID))
    return Fn.select(4, Fn.split("-", stack_guid))


def declared_properties(resource: IConstruct, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a resource that this app defines, as its template spells them; none of an imported one."""
    child = resource.node.default_child
    if child is None:
        return {}
    inspector = TreeInspector()
    cast("IInspectable", child).inspect(inspector)
    resolved = Stack.of(resource).resolve(inspector.attributes["aws:cdk:cloudformation:props"])
    return {**defaults, **{name: value for name, value in resolved.items() if not Token.is_unresolved(value)}}
