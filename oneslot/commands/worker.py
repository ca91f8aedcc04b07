"""`oneslot worker`: consume a queue in this process, for a container or a server; no Lambda."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

import click

from oneslot.commands.worker_handler import Connect, client_configuration, connect_on_aws, load_handler, open_consumer
from oneslot.errors import BadInput
from oneslot.options import stack_option
from oneslot.worker import visibility as worker_visibility
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import InvalidSettings, WorkerSettings
from oneslot.worker.worker import Worker

DEFAULTS = WorkerSettings()
OWN_LIMIT_SECONDS = 30.0
"""Of Oneslot's own consumer, as its Lambda timeout: its ledger's leases last as long, and a busy message waits for them."""

ONE_WISH_SECONDS = 1.0
"""What else comes so soon after a signal is no second thought: `timeout`, say, signals a process and then its group."""


@click.command(short_help="Consume the queue in this process: for a container or a server.")
@stack_option
@click.option("--queue-url", metavar="URL", help="The queue. Default: the stack's, or QUEUE_URL of the environment.")
@click.option(
    "--handler",
    metavar="MODULE:NAME",
    help="A Lambda handler for SQS, found from the present directory. Default: Oneslot's own consumer.",
)
@click.option("--threads", type=int, default=DEFAULTS.threads, show_default=True, help="Messages in work at once.")
@click.option(
    "--visibility",
    type=int,
    default=DEFAULTS.visibility_seconds,
    show_default=True,
    help="Seconds between two heartbeats of a message.",
)
@click.option(
    "--buffer",
    "buffer_seconds",
    type=int,
    default=DEFAULTS.buffer_seconds,
    show_default=True,
    help="Seconds that a heartbeat may be late.",
)
@click.option(
    "--limit",
    type=float,
    help=f"Hard limit for a message, in seconds. Default: {DEFAULTS.limit_seconds:g}; Oneslot's own: {OWN_LIMIT_SECONDS:g}.",
)
@click.option(
    "--grace",
    type=float,
    default=DEFAULTS.grace_seconds,
    show_default=True,
    help="Seconds after SIGTERM to finish what is in hand.",
)
@click.option("--wait", type=int, default=DEFAULTS.wait_seconds, show_default=True, help="Seconds of a long poll.")
def worker(
    *,
    stack: str | None,
    queue_url: str | None,
    handler: str | None,
    threads: int,
    visibility: int,
    buffer_seconds: int,
    limit: float | None,
    grace: float,
    wait: int,
) -> int:
    """Consume until SIGTERM or Ctrl-C, then finish what is in hand, or give it back; a second one gives it back at once.

    \b
    oneslot worker --stack Oneslot-dev          a stack on AWS, configured as its function is
    oneslot worker                              by QUEUE_URL, LEDGER_TABLE ... in the environment, else the local stack
    oneslot worker --handler mails:handle --queue-url https://sqs...

    One JSON line for each event on standard output, metrics once a minute in CloudWatch's embedded format.
    Exit status 0 after an orderly stop; 1 if too many messages at once were over their limit, or a thread of its own has
    died: start it again.
    """
    try:
        settings = WorkerSettings(
            threads=threads,
            visibility_seconds=visibility,
            buffer_seconds=buffer_seconds,
            limit_seconds=limit if limit is not None else DEFAULTS.limit_seconds if handler else OWN_LIMIT_SECONDS,
            grace_seconds=grace,
            wait_seconds=wait,
        )
    except InvalidSettings as error:
        raise BadInput(str(error)) from error
    log = WorkerLog()
    if handler is not None:
        loaded = load_handler(handler)
        url = queue_url or os.environ.get("QUEUE_URL")
        if not url:
            raise BadInput("--handler needs a queue: give --queue-url, or set QUEUE_URL.")
        connect: Connect = connect_on_aws
        client = connect(client_configuration(threads))
    else:
        connect, client, url, loaded = open_consumer(stack, queue_url, settings, log)
    heartbeat_client = connect(worker_visibility.configuration(settings))
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    running = Worker(client, url, arn, loaded, settings, heartbeat_client=heartbeat_client, log=log)

    asked: list[float] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signature of a signal handler
        asked.append(time.monotonic())
        if len(asked) == 1:
            running.stop()
        elif asked[-1] - asked[0] > ONE_WISH_SECONDS:
            running.hurry()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    ended = running.run()
    status = 1 if ended.stuck else 0
    if ended.stuck or ended.at_work:
        # Python waits for every thread that is no daemon before it ends, and so for what a handler hangs in.
        sys.stdout.flush()
        os._exit(status)
    sys.stdout.flush()
    return status
