"""What happens to the things that hold data when their stack is deleted."""

from __future__ import annotations

from aws_cdk import RemovalPolicy

from stacks.settings import Settings


def removal_policy(settings: Settings) -> RemovalPolicy:
    """`RETAIN` where the settings keep data, else `DESTROY`."""
    return RemovalPolicy.RETAIN if settings.retain_data else RemovalPolicy.DESTROY
