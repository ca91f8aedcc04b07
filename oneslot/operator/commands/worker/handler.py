"""The handler that a worker runs: the user's own, or the application's consumer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
from botocore.config import Config

from oneslot.declaration.loading import load_name
from oneslot.declaration.reading import declared
from oneslot.errors import InvalidArguments, InvalidConfiguration, InvalidName, NotImportable
from oneslot.target import open_target
from oneslot.worker.acknowledgement import DELETERS
from oneslot.worker.log import WorkerLog
from oneslot.worker.poller import FIFO_POLLERS
from oneslot.worker.pool import Handler
from oneslot.worker.settings import WorkerSettings

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


def open_consumer(
    stack: str | None, queue_url: str | None, settings: WorkerSettings, log: WorkerLog
) -> tuple[Connect, SQSClient, str, Handler]:
    """Return the declared consumer, configured as the function of a stack is, or by the environment.

    Raises `BadInput` for a wrong configuration, and for a consumer that declares no `tools.compose`.
    """
    declaration = declared()
    compose_consumer = declaration.tool("compose")
    if compose_consumer is None:
        raise InvalidArguments(
            f"{declaration.name} declares no tools.compose. Give its handler with --handler and --queue-url."
        )
    dynamodb: Any = None
    connect: Connect = connect_on_aws
    if stack is None and "ONESLOT_LEDGER_TABLE" in os.environ:
        environment: Mapping[str, str] = os.environ
    else:
        target = open_target(stack)
        if target.local:
            connect, dynamodb = target.local.connection.sqs, target.dynamodb
        environment = target.function_variables()
    sqs = connect(client_configuration(settings.threads))
    try:
        url, consumer = compose_consumer(
            environment,
            queue_url,
            settings.threads,
            # The function's own timeouts: a lost answer must not outlast the lease.
            lambda config: dynamodb or boto3.client("dynamodb", config=config),
            sqs,
            lambda delivery: log.line("delivery", **asdict(delivery)),
        )
    except ValueError as error:
        raise InvalidConfiguration(f"The consumer's configuration is wrong: {error}.") from error
    return connect, sqs, url, consumer


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
