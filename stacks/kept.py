"""Refuse a deployment that would silently drop a setting of the deployed stage.

    python -m stacks.kept STAGE [-c name=value ...]

A setting that an earlier deployment was given, with `-c` or in the stage's file, must be named again, with any value. The
output `GivenSettings` of the deployed stack has them. `make deploy` runs this before CDK, and reads in CDK's region.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.cdk.numbers import ContradictorySettings
from stacks.context import OVERRIDABLE, STAGE_FILES, default_of, read_stage_file, settings_from_context

OUTPUT = "GivenSettings"

REGIONS = ("AWS_REGION", "AMAZON_REGION", "AWS_DEFAULT_REGION", "AMAZON_DEFAULT_REGION")
"""The variables in which CDK's command line looks for a region, in its order. boto3 alone would read the third."""

AUDIT_STAYS = (
    "The stack {stack}-audit stays, audits each night and is billed. Delete it: docs/do/deploy.md#delete-a-stage."
)
"""What a deployment says that ends the audit, because CDK deletes no stack."""


def main(arguments: Sequence[str], client: Any = None) -> int:
    """Return 0 if the deployment may go on, and 1 after a sentence on standard error if not.

    client: CloudFormation's; made from the environment by default.
    """
    stage, *options = arguments
    context = dict(pair.split("=", 1) for pair in options if pair != "-c")
    try:
        settings = settings_from_context({"stage": stage, **context}, STAGE_FILES)
        named = {*context, *read_stage_file(stage, STAGE_FILES)}
        stack = f"Oneslot-{stage}"
        if client is None:
            client = boto3.client("cloudformation", region_name=region(os.environ))
            sys.stderr.write(f"Oneslot: the region is {client.meta.region_name}.\n")
        deployed = deployed_settings(client, stack)
    except ContradictorySettings as problem:
        sys.stderr.write(f"Oneslot: {problem}\n")
        return 1
    except (BotoCoreError, ClientError) as problem:
        sys.stderr.write(
            f"Oneslot: the settings of the deployed stack cannot be read: {problem} The credentials need "
            "cloudformation:DescribeStacks (docs/do/deploy.md).\n"
        )
        return 1
    lines = list(refusals(stage, deployed, named))
    notes = [AUDIT_STAYS.format(stack=stack)] if deployed.get("audit") == "true" and not settings.audit else []
    for name in sorted(set(deployed) - set(OVERRIDABLE)):
        value = deployed[name]
        notes.append(f"{stack} was deployed with {name}={value}, and this version has no {name}: see the changelog.")
    sys.stderr.write("".join(f"Oneslot: {line}\n" for line in [*lines, *notes]))
    return 1 if lines else 0


def region(environment: Mapping[str, str]) -> str | None:
    """Return the region that CDK's command line deploys to; None if the profile has it."""
    return next((environment[name] for name in REGIONS if environment.get(name)), None)


def deployed_settings(client: Any, stack: str) -> dict[str, str]:
    """Return the given settings of the deployed stack by name; none if there is no stack. Raises the client's errors."""
    try:
        found = client.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return {}
        raise
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", ())}
    pairs = outputs.get(OUTPUT, "").removeprefix("-c ").split(" -c ")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def refusals(stage: str, deployed: dict[str, str], named: Iterable[str]) -> Iterable[str]:
    """Yield a sentence for each setting of the deployed stack that the next deployment does not name."""
    for name in sorted((set(deployed) & set(OVERRIDABLE)) - set(named)):
        value = deployed[name]
        yield (
            f"Oneslot-{stage} was deployed with {name}={value}, and this deployment would drop it. Write it into "
            f"stages/{stage}.json; to end it, write its default there, {default_of(stage, name)}."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
