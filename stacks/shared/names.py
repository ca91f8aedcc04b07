"""Names of resources that must be known before the resources exist."""

from __future__ import annotations

from aws_cdk import Aws, Fn


def name_in_this_stack(suffix: str, ending: str = "") -> str:
    """`<stack name>-<suffix>-<12 hex digits of the stack's id><ending>`: unique, also beside what a deleted stack left behind.

    A name is given only where two resources refer to each other: everything else is named by CloudFormation.
    """
    # arn:aws:cloudformation:region:account:stack/name/01234567-89ab-cdef-0123-456789abcdef
    stack_guid = Fn.select(2, Fn.split("/", Aws.STACK_ID))
    name = Fn.join("-", [Aws.STACK_NAME, suffix, Fn.select(4, Fn.split("-", stack_guid))])
    return f"{name}{ending}"
