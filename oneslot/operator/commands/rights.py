"""`rights`: an operator's IAM policies, for the stack of any declared consumer."""

import json
import os
from collections.abc import Mapping
from string import Template
from typing import Any

import click

from oneslot.errors import InvalidArguments
from oneslot.operator.commands.docs import FOLDER
from oneslot.operator.options import on_stack
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal
from oneslot.runtime.lambda_consumer import SEND_PREFIX
from oneslot.runtime.sends.outbox import QUEUE, kind_of, region_of


@click.command(short_help="Print an operator's IAM policy.")
@click.argument("policy", type=click.Choice(("look", "repair", "runbooks")))
@on_stack
def rights(_: Terminal, target: Target, policy: str) -> None:
    """Print an IAM policy for a stack on AWS: to look, to repair beside it, or for the commands of the runbooks.

    With AUDIT, the audit's bucket, in the environment, runbooks also covers those of the audit.
    """
    if target.local:
        raise InvalidArguments(f"Policies are for AWS. Name a stack: --stack {target.declaration.stack}.")
    click.echo(json.dumps(policy_of(policy, target, os.environ), indent=2))


def policy_of(name: str, target: Target, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a policy with the stack's names and targets, without the statements that need another name."""
    text = (FOLDER / "do" / "rights" / f"{name}.json").read_text(encoding="utf-8")
    region, account = target.identity.split(":")[3:5]
    own = {"AWS_DEFAULT_REGION": region, "ACCOUNT": account, "STACK": target.stack_name}
    names = {**environment, **target.outputs.variables(), **own}
    for queue in ("QUEUE", "DEAD_LETTER_QUEUE"):
        names[f"{queue}_NAME"] = names[f"{queue}_URL"].rpartition("/")[2]
    # A table that has no statement of its own may be read whole.
    others = [stored for table, stored in target.outputs.tables.items() if f"{table}_TABLE_NAME".upper() not in text]
    resources = {"TABLES": [f"arn:aws:dynamodb:{region}:{account}:table/{stored}" for stored in others]}
    for variable, sends_to in target.function_variables().items():
        if variable.startswith(SEND_PREFIX) and (kind := kind_of(sends_to)):
            arn = ":".join(["arn:aws:sqs", str(region_of(sends_to)), *sends_to.split("/")[-2:]])
            resources.setdefault(f"{kind.upper()}_TARGETS", []).append(arn if kind == QUEUE else sends_to)
    names |= {name: '", "'.join(arns) for name, arns in resources.items() if arns}
    document: dict[str, Any] = json.loads(Template(text).safe_substitute(names))
    return document | {"Statement": [each for each in document["Statement"] if "${" not in json.dumps(each)]}
