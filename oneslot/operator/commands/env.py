"""`env`: the names of a stack's parts as shell variables."""

from __future__ import annotations

import shlex
from contextlib import suppress

import click
from botocore.exceptions import ClientError

from oneslot.operator.commands.frame import on_stack
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal


@click.command(short_help='Print shell variables for the AWS CLI: eval "$(oneslot env)".')
@on_stack
def env(terminal: Terminal, target: Target) -> None:
    """Print a stack's queues, tables and function as shell variables: eval "$(oneslot env)".

    Each variable is named like the stack's output, e.g. QUEUE_URL or LEDGER_TABLE_NAME. Those of the function follow, by
    which its handler runs in this shell too.
    The local stack's AWS_ENDPOINT_URL and credentials are among them. Its session token is new with each start. `aws sqs`
    of version 1 ignores AWS_ENDPOINT_URL; give it --endpoint-url "$ENDPOINT_URL".
    """
    variables = shell_variables(target)
    terminal.result(variables)
    for name, value in variables.items():
        terminal.plain(f"export {name}={shlex.quote(value)}")


def shell_variables(target: Target) -> dict[str, str]:
    """Return the variables to export, by name. Without the function, or the right to read it, those of the stack alone."""
    variables = target.outputs.variables()
    with suppress(ClientError):
        variables = {**target.function_variables(), **variables}
    if target.local is None:
        return variables
    return {
        **target.local.connection.variables,
        "ENDPOINT_URL": target.local.endpoint_url,
        **variables,
    }
