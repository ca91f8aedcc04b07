"""`worker`: consume a queue in this process, in a container or on a server, without Lambda."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import click

from oneslot.errors import InvalidArguments, InvalidConfiguration
from oneslot.operator.commands.worker.handler import (
    Opened,
    client_configuration,
    connect_on_aws,
    load_handler,
    open_consumer,
)
from oneslot.operator.options import stack_option
from oneslot.runtime.lambda_consumer import QUEUE_URL
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker import visibility as worker_visibility
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import InvalidSettings, WorkerSettings
from oneslot.worker.worker import Worker

DEFAULTS = WorkerSettings()
ONE_SIGNAL_SECONDS = 1.0
"""A second signal within this time is part of the first: `timeout` signals a process and then its group."""


NUMBERS = (
    ("--threads", "threads", int, "Process N messages at once."),
    ("--visibility", "visibility_seconds", int, "Send a heartbeat for each message every N seconds."),
    ("--buffer", "buffer_seconds", int, "Tolerate a heartbeat that is N seconds late."),
    ("--grace", "grace_seconds", float, "Finish the messages in work within N seconds after SIGTERM."),
    ("--wait", "wait_seconds", int, "Wait N seconds for messages in each poll."),
    (
        "--retry-delay",
        "retry_delay_seconds",
        int,
        "Delay a message whose handler raised: 1 second, then twice as long each time, up to N. 0: its visibility.",
    ),
)
"""Options with the settings that they give, which also have the defaults, and their types."""


def number_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of `NUMBERS`."""
    for option, setting, kind, text in reversed(NUMBERS):
        default = getattr(DEFAULTS, setting)
        add = click.option(option, setting, metavar="N", type=kind, default=default, show_default=True, help=text)
        function = add(function)
    return function


@click.command(short_help="Consume the queue in this process, without Lambda.")
@stack_option
@click.option(
    "--queue-url",
    metavar="URL",
    help="Consume this queue. Default: the stack's, or ONESLOT_QUEUE_URL of the environment.",
)
@click.option(
    "--handler",
    metavar="MODULE:NAME",
    help="Run this Lambda handler, imported from the current directory. Default: the declared one.",
)
@click.option(
    "--reports-failures/--no-reports-failures",
    default=DEFAULTS.reports_failures,
    help="Read the handler's answer, as a mapping with ReportBatchItemFailures does, or ignore it.",
)
@number_options
@click.option(
    "--limit",
    metavar="N",
    type=float,
    help=f"Limit a message to N seconds. Default: the function's timeout; without one {DEFAULTS.limit_seconds:g}.",
)
def worker(
    *,
    stack: str | None,
    queue_url: str | None,
    handler: str | None,
    reports_failures: bool,
    limit: float | None,
    **numbers: Any,
) -> int:
    """Consume a queue until SIGTERM or Ctrl-C, then finish the messages in work. A second signal returns them at once.

    \b
    oneslot worker --stack Oneslot-dev          the declared consumer, configured as the function of a stack on AWS
    oneslot worker                              by ONESLOT_LEDGER_TABLE ... in the environment, else the local stack
    oneslot worker --handler mails:handle --queue-url https://sqs...

    Each event is one JSON line on standard output; metrics follow once a minute in CloudWatch's embedded format.
    Exit status 0 after an orderly stop. Start it again after 1: too many messages exceeded the limit, or a thread died.
    """
    if handler is None and not reports_failures:
        raise InvalidArguments(
            "--no-reports-failures needs --handler, because the declared consumer reports its failures."
        )
    given = numbers if limit is None else {**numbers, "limit_seconds": limit}
    try:
        settings = WorkerSettings(reports_failures=reports_failures, **given)
        if handler is not None:
            opened = Opened(connect_on_aws, queue_url or os.environ.get(QUEUE_URL, ""), load_handler(handler), None)
            if not opened.queue_url:
                raise InvalidArguments(f"--handler needs a queue. Give --queue-url, or set {QUEUE_URL}.")
        else:
            opened = open_consumer(stack, queue_url, settings.threads)
            if limit is None and opened.limit_seconds is not None:
                settings = replace(settings, limit_seconds=opened.limit_seconds)
        settings.require_queue(url := opened.queue_url)
    except InvalidSettings as error:
        raise InvalidConfiguration(str(error)) from error
    surroundings = Surroundings()
    client = opened.connect(client_configuration(settings.threads))
    heartbeat_client = opened.connect(worker_visibility.configuration(settings))
    about = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn", "RedrivePolicy"])["Attributes"]
    if policy := about.get("RedrivePolicy"):
        settings = replace(settings, max_receive_count=int(json.loads(policy)["maxReceiveCount"]))
    running = Worker(
        client,
        url,
        about["QueueArn"],
        opened.handler,
        settings,
        heartbeat_client=heartbeat_client,
        log=WorkerLog(surroundings=surroundings),
        surroundings=surroundings,
    )

    asked: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signature of a signal handler
        asked.append(surroundings.steady())
        if len(asked) == 1:
            running.stop()
        elif asked[-1] - asked[0] > ONE_SIGNAL_SECONDS:
            running.hurry()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    ended = running.run()
    sys.stdout.flush()
    if ended.stuck or ended.at_work:
        # Python would wait for the thread in which a handler hangs.
        os._exit(int(ended.stuck))
    return int(ended.stuck)
