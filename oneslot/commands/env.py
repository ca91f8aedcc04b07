"""`env`: a stack's names as shell variables, for the AWS CLI and for scripts."""

from __future__ import annotations

import shlex
from dataclasses import asdict

import click

from oneslot.options import json_option, stack_option
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal


@click.command(short_help='Shell variables for the AWS CLI: eval "$(oneslot env)".')
@stack_option
@json_option
def env(stack: str | None, as_json: bool) -> None:
    """Print a stack's queues, tables and function as shell variables: eval "$(oneslot env)".

    For the local stack its endpoint and credentials, too. Every variable is named like the stack's output, e.g.
    QUEUE_URL, LEDGER_TABLE_NAME.
    """
    terminal = Terminal(as_json)
    variables = shell_variables(open_target(stack))
    terminal.result(variables)
    for name, value in variables.items():
        terminal.plain(f"export {name}={shlex.quote(value)}")


def shell_variables(target: Target) -> dict[str, str]:
    """Name → value, as they are to be exported."""
    variables = {name.upper(): value for name, value in asdict(target.outputs).items()}
    if target.local is None:
        return variables
    return {
        "ENDPOINT_URL": target.local.endpoint_url,
        "AWS_ACCESS_KEY_ID": target.local.access_key_id,
        "AWS_SECRET_ACCESS_KEY": target.local.secret_access_key,
        "AWS_DEFAULT_REGION": target.local.region,
        **variables,
    }
