"""`up` and `down`: the local stack that stays until it is stopped."""

from __future__ import annotations

import random
import shlex
from collections.abc import Sequence
from datetime import date
from typing import Any
from uuid import uuid4

import click
from click.core import ParameterSource

from oneslot.errors import OneslotError
from oneslot.local.launcher import down as stop_stack
from oneslot.local.launcher import up as start_stack
from oneslot.local.state import LocalState, read_state
from oneslot.options import COUNT, context_option, json_option
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.sending.request_file import sample_request
from oneslot.target import Target, home_folder, local_target
from oneslot.terminal import Terminal
from workload.patients import synthetic_nhs_number
from workload.plan import load
from workload.practices import synthetic_practices
from workload.slots import LOCAL_TIME, next_monday, opening_hours, working_days


@click.command(short_help="Start the local stack: an embedded AWS with the real template deployed.")
@click.option("--stage", default="dev", show_default=True, help="The stage to synthesise and deploy.")
@click.option(
    "--processes", type=COUNT, metavar="N", default=4, show_default=True, help="Handler processes at once, at most."
)
@context_option
@json_option
def up(stage: str, processes: int, context: Sequence[tuple[str, str]], as_json: bool) -> None:
    """Start the local stack, and leave it running.

    An embedded AWS starts on loopback, the CDK app is synthesised, and its template is deployed there. No account, no
    Docker. What to do with it is printed, ready to be pasted.
    """
    terminal = Terminal(as_json)
    home = home_folder()
    state = read_state(home)
    if state is not None:
        _refuse_other_settings(state, stage, context)
        terminal.say("The local stack is running already.")
    else:
        with terminal.working("Starting the local stack"):
            state = start_stack(home, progress=terminal.say, stage=stage, processes=processes, context=dict(context))
    target = local_target(state, home)
    lines = command_lines(target, state)
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
    terminal.plain(f"{state.stack_name} is up at {state.endpoint_url}\n")
    for _, what, text in lines:
        terminal.plain(f"# {what}\n{text}\n")


def _refuse_other_settings(state: LocalState, stage: str, context: Sequence[tuple[str, str]]) -> None:
    """A stack that runs takes no settings. Raises `OneslotError` for those that it was not started with, as far as it says."""
    given = state.outputs.get("GivenSettings", "").split(" -c ")
    known = {text.strip().removeprefix("-c ") for text in given}
    asked = [f"-c {name}={value}" for name, value in context if f"{name}={value}" not in known]
    named = click.get_current_context().get_parameter_source("stage") is not ParameterSource.DEFAULT
    if named and state.stack_name != f"Oneslot-{stage}":
        asked.insert(0, f"--stage {stage}")
    if asked:
        raise OneslotError(
            f"A local stack is running already, {state.stack_name}, and does not say that it was started with "
            f"{' '.join(asked)}. Use it (oneslot status), or end it first: oneslot down."
        )


@click.command(short_help="Stop the local stack.")
@json_option
def down(as_json: bool) -> None:
    """Stop the local stack. Its tables and queues are gone with it; its logs stay in the state folder."""
    terminal = Terminal(as_json)
    home = home_folder()
    with terminal.working("Stopping the local stack"):
        stopped = stop_stack(home)
    terminal.result({"stopped": stopped})
    terminal.plain("The local stack is stopped." if stopped else "No local stack was running.")


def command_lines(target: Target, state: LocalState) -> list[tuple[str, str, str]]:
    """Return `(name, what it is for, shell lines)`: what to paste next."""
    schedule = load(target.plan, target.identity)
    practice = schedule.openings[0].demand.practice if schedule else synthetic_practices(1)[0].code
    days = schedule.days if schedule else working_days(next_monday(date.today()), 5)  # noqa: DTZ011 - the user's own day
    first, last = (opening_hours(days[at])[end].astimezone(LOCAL_TIME).isoformat() for at, end in ((0, 0), (-1, 1)))
    message_id = str(uuid4())
    body = sample_request(practice, first, last, synthetic_nhs_number(random.Random()), message_id)
    # The CLI's sqs commands do not read AWS_ENDPOINT_URL, so every line names the endpoint.
    endpoint = f"--endpoint-url {state.endpoint_url}"
    key = '{"message_id": {"S": "%s"}}' % message_id  # noqa: UP031 - braces are part of the text
    outputs = target.outputs
    order = f" --message-group-id {practice}" if is_fifo(outputs.queue_url) else ""
    lines: list[tuple[str, str, Any]] = [
        (
            "credentials",
            "let the AWS CLI speak to it",
            f"export AWS_ACCESS_KEY_ID={state.access_key_id} AWS_SECRET_ACCESS_KEY={state.secret_access_key} "
            f"AWS_DEFAULT_REGION={state.region}",
        ),
        ("seed", "open slots" + (" (done already)" if schedule else ""), "oneslot seed"),
        (
            "send",
            "send one request: a made-up patient, a number of the range that is kept for tests",
            f"aws sqs send-message {endpoint} --queue-url {outputs.queue_url} --message-body {shlex.quote(body)}{order}",
        ),
        ("inspect", "what became of it", f"oneslot inspect {message_id}"),
        (
            "ledger",
            "its row in the ledger",
            f"aws dynamodb get-item {endpoint} --table-name {outputs.ledger_table_name} --key {shlex.quote(key)}",
        ),
        (
            "queue",
            "how much the queue holds",
            f"aws sqs get-queue-attributes {endpoint} --queue-url {outputs.queue_url} --attribute-names All",
        ),
        (
            "more",
            "or thousands of requests, many of them twice, and the verdict",
            "oneslot send\noneslot watch --until-drained\noneslot check",
        ),
        ("down", "when you are done", "oneslot down"),
    ]
    return lines
