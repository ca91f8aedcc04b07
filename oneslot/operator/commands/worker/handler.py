"""The handler that a worker runs: the declared consumer's, or another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import boto3
from botocore.config import Config

from oneslot.declaration.declaration import load_name
from oneslot.declaration.reading import declared
from oneslot.errors import InvalidArguments, InvalidConfiguration, InvalidName, NotImportable
from oneslot.local.mapping.bootstrap import LineWriter
from oneslot.operator.target import DELIVERY_LOG_VARIABLE, open_target
from oneslot.runtime.lambda_consumer import QUEUE_URL, WORKER_THREADS
from oneslot.worker.acknowledgement import DELETERS
from oneslot.worker.pool import FIFO_POLLERS, Handler

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

Connect = Callable[[Config], "SQSClient"]


def load_handler(handler: str) -> Handler:
    """Import `module:name` and return it. Raises `BadInput`, whatever the module raises."""
    module, _, name = handler.partition(":")
    if not module or not name or module.startswith("."):
        raise InvalidName(f"{handler!r} is not a valid --handler. Write it as module:name, e.g. mails:handle.")
    sys.path.insert(0, str(Path.cwd()))
    # Lambda also takes slashes.
    found = load_name(
        f"--handler {handler}", module.replace("/", "."), name, "It is imported from the current directory."
    )
    if not callable(found):
        raise NotImportable(
            f"--handler {handler} is a {type(found).__name__}, and not a function. Name one that takes event and context."
        )
    return cast("Handler", found)


class Opened(NamedTuple):
    """The declared consumer: what makes SQS clients, its queue, its handler, and its function's timeout if it has one."""

    connect: Connect
    queue_url: str
    handler: Handler
    limit_seconds: float | None


def open_consumer(stack: str | None, queue_url: str | None, threads: int) -> Opened:
    """Return the declared consumer, configured as the function of a stack is, or by the environment.

    The process gets the function's variables: the handler reads them, as it does on Lambda. Raises `BadInput` for a wrong
    configuration, and for a handler that cannot be imported.
    """
    declaration = declared()
    connect: Connect = connect_on_aws
    limit: float | None = None
    if stack is not None or "ONESLOT_LEDGER_TABLE" not in os.environ:
        target = open_target(stack)
        about = target.function_configuration()
        limit = about["Timeout"]
        os.environ.update(about.get("Environment", {}).get("Variables", {}))
        if target.local:
            connect = target.local.connection.sqs
            os.environ.update({**target.local.connection.variables, DELIVERY_LOG_VARIABLE: target.local.log_file})
    if log := os.environ.get(DELIVERY_LOG_VARIABLE):  # `check` and `inspect` read the function's deliveries there
        sys.stdout = LineWriter(sys.stdout.fileno(), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    url = queue_url or os.environ.get(QUEUE_URL)
    if not url:
        raise InvalidArguments(f"{declaration.name} has no queue. Give --queue-url, or set {QUEUE_URL}.")
    os.environ[QUEUE_URL] = url  # a busy message is deferred in the queue that it came from
    os.environ[WORKER_THREADS] = str(threads)
    try:
        handler = declaration.load(declaration.handler.replace("/", "."), "handler")
    except NotImportable as error:
        if not isinstance(error.__cause__, ValueError):
            raise
        raise InvalidConfiguration(f"The consumer's configuration is wrong: {error.__cause__}.") from error
    return Opened(connect, url, cast("Handler", handler), limit)


def connect_on_aws(config: Config) -> SQSClient:
    """Return an SQS client by the default credentials."""
    return boto3.client("sqs", config=config)


def client_configuration(threads: int) -> Config:
    """Return the configuration of a client that serves the threads, the pollers and the deletion of messages."""
    return Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=threads + FIFO_POLLERS + DELETERS,
        connect_timeout=3,
        read_timeout=30,  # longer than a long poll
    )
