"""`oneslot worker`: consume a queue in this process, for a container or a server; no Lambda."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import boto3
import click
from botocore.config import Config

from oneslot.errors import BadInput, OneslotError
from oneslot.options import stack_option
from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.batch import process
from oneslot.target import open_target
from oneslot.worker import visibility as worker_visibility
from oneslot.worker.log import WorkerLog
from oneslot.worker.pool import Handler
from oneslot.worker.settings import InvalidSettings, WorkerSettings
from oneslot.worker.worker import Worker

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

Connect = Callable[[Config], "SQSClient"]

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
        loaded = load(handler)
        url = queue_url or os.environ.get("QUEUE_URL")
        if not url:
            raise BadInput("--handler needs a queue: give --queue-url, or set QUEUE_URL.")
        connect: Connect = _on_aws
        client = connect(_config(threads))
    else:
        connect, client, url, loaded = _appointments(stack, queue_url, settings, log)
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


def load(handler: str) -> Handler:
    """Import `module:name`. Raises `BadInput` if that is not possible, whatever the module does."""
    module, _, name = handler.partition(":")
    if not module or not name or module.startswith("."):
        raise BadInput(f"--handler is {handler!r}; write it as module:name, e.g. mails:handle.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"--handler {handler}: {error}. It is looked for from the present directory.") from error
    except (Exception, SystemExit) as error:
        # The message may quote a value of the environment, so only the class is shown.
        raise BadInput(
            f"--handler {handler}: importing it raised {type(error).__name__}{_place(error)}. Mend the module, or what it "
            "finds in its environment."
        ) from error
    found = getattr(imported, name, None)
    if found is None:
        raise BadInput(f"--handler {handler}: there is no {name} in {getattr(imported, '__file__', None) or module}.")
    if not callable(found):
        raise BadInput(f"--handler {handler} is not callable.")
    return cast("Handler", found)


def _place(error: BaseException) -> str:
    """Return where the module that was to be imported failed, as the end of a sentence; "" if it did not get so far."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    machinery = (__file__, importlib.__file__)
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename not in machinery and not frame.filename.startswith("<frozen importlib"):
            return f" at {frame.filename}:{frame.lineno}"
    return ""


def _appointments(
    stack: str | None, queue_url: str | None, settings: WorkerSettings, log: WorkerLog
) -> tuple[Connect, SQSClient, str, Handler]:
    """Oneslot's own consumer with the clients and the configuration of a stack, or of the environment."""
    try:
        from booking.compose import client_configuration, compose
        from booking.configuration import Configuration
    except ImportError as error:
        raise OneslotError(
            "Oneslot's own consumer is not part of the installed package; run this in its repository, or give --handler."
        ) from error
    if stack is None and "LEDGER_TABLE" in os.environ:
        environment: Mapping[str, str] = os.environ
        connect: Connect = _on_aws
        dynamodb: Any = boto3.client("dynamodb", config=client_configuration(settings.threads))
    else:
        target = open_target(stack)
        connect = target.local.connection.sqs if target.local else _on_aws
        # As the function's own: a lost answer is asked for again long before the lease is over.
        dynamodb = (
            target.dynamodb if target.local else boto3.client("dynamodb", config=client_configuration(settings.threads))
        )
        functions = (
            target.local.connection.functions()
            if target.local
            else boto3.client("lambda", config=_config(settings.threads))
        )
        about = functions.get_function_configuration(FunctionName=target.outputs.consumer_function_name)
        environment = about.get("Environment", {}).get("Variables", {})
        functions.close()
    try:
        configuration = Configuration.from_environment(environment)
    except ValueError as error:
        raise BadInput(f"The consumer's configuration: {error}.") from error
    if queue_url:  # what is deferred is so in the queue that it came from
        configuration = replace(configuration, queue_url=queue_url)
    sqs = connect(_config(settings.threads))
    consumer = compose(
        configuration,
        dynamodb,
        cast("Any", sqs),
        lambda delivery: log.line("delivery", **asdict(delivery)),
        attempt=attempt,
        process=process,
    )
    return connect, sqs, configuration.queue_url, consumer


def _on_aws(config: Config) -> SQSClient:
    return boto3.client("sqs", config=config)


def _config(threads: int) -> Config:
    # A connection for each thread and for poller and deletion; the read may last as long as a long poll.
    return Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=threads + 2,
        connect_timeout=3,
        read_timeout=30,
    )
