"""`up`, `env` and `down`: the local stack, which runs until it is stopped, and the names of a stack's parts."""

import shlex
from collections.abc import Sequence
from contextlib import suppress

import click
from botocore.exceptions import ClientError
from click.core import ParameterSource

from oneslot.declaration.reading import declared
from oneslot.errors import InvalidArguments
from oneslot.local.launcher import down as stop_stack
from oneslot.local.launcher import up as start_stack
from oneslot.local.stack import update as update_stack
from oneslot.local.state import LocalState, read_state
from oneslot.operator.options import consumer_option, json_option, local_stack_options, on_stack
from oneslot.operator.target import DELIVERY_LOG_VARIABLE, Target, home_folder, local_target
from oneslot.operator.terminal import Terminal


@click.command(short_help="Start the local stack: the real template in an embedded AWS.")
@local_stack_options
@consumer_option
@json_option
def up(stage: str, context: Sequence[tuple[str, str]], as_json: bool) -> None:
    """Start the local stack, or update the one that runs, and print the next commands to paste.

    An embedded AWS starts on loopback, and the CDK app's template is deployed there. It needs no account and no Docker.
    An update keeps what queues and tables hold, and the settings that were given before.
    """
    terminal = Terminal(as_json)
    home = home_folder()
    state = read_state(home)
    named = click.get_current_context().get_parameter_source("stage") is not ParameterSource.DEFAULT
    if state and named and stage != state.stage:
        raise InvalidArguments(
            f"The local stack {state.stack_name} is of the stage {state.stage}. Leave out --stage, or stop it: oneslot down."
        )
    with terminal.working(f"{'Updating' if state else 'Starting'} the local stack"):
        if state:
            state = update_stack(home, state, progress=terminal.say, context=dict(context))
        else:
            state = start_stack(home, progress=terminal.say, stage=stage, context=dict(context))
    lines = (declared().tool("next_steps") or next_steps)(local_target(state, home), state)
    terminal.result(
        {
            "endpoint_url": state.endpoint_url,
            "region": state.region,
            "stack_name": state.stack_name,
            "outputs": state.outputs,
            "delivery_log": state.log_file,
            "commands": {name: text for name, _, text in lines},
        }
    )
    terminal.plain(f"{state.stack_name} is up at {state.endpoint_url}")
    terminal.plain()
    for _, what, text in lines:
        terminal.lines(f"# {what}\n{text}\n")


def next_steps(_target: Target, _state: LocalState) -> list[tuple[str, str, str]]:
    """Return `(name, purpose, shell lines)`: how to send a message and judge it, for a consumer without steps of its own."""
    return [
        (
            "send",
            "send a message twice: MESSAGE is a body of your consumer's, as JSON",
            "oneslot send 'MESSAGE' --copies 2\noneslot watch --until-drained",
        ),
        ("inspect", "see what became of it", "oneslot inspect MESSAGE_ID"),
        ("check", "judge the result", "oneslot check"),
        ("update", "deploy an edit; what queues and tables hold stays", "oneslot up"),
        ("credentials", "let the AWS CLI reach it (aws sqs: by --endpoint-url)", 'eval "$(oneslot env)"'),
        ("down", "stop the local stack", "oneslot down"),
    ]


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
    own = {"ENDPOINT_URL": target.local.endpoint_url, DELIVERY_LOG_VARIABLE: target.local.log_file}
    return {**target.local.connection.variables, **own, **variables}


@click.command(short_help="Stop the local stack.")
@consumer_option
@json_option
def down(as_json: bool) -> None:
    """Stop the local stack. Its tables and queues are deleted; its logs stay in the state folder."""
    terminal = Terminal(as_json)
    home = home_folder()
    with terminal.working("Stopping the local stack"):
        stopped = stop_stack(home)
    terminal.result({"stopped": stopped})
    terminal.plain("The local stack is stopped." if stopped else "No local stack was running.")
