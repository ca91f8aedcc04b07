"""`relay`: send the messages that follow commits, in a container or on a server, or once after a failure."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache, partial
from types import FrameType
from typing import Any

import boto3
import click

from oneslot.errors import InvalidConfiguration
from oneslot.operator.options import stack_option
from oneslot.operator.target import open_target
from oneslot.runtime.lambda_consumer import client_configuration, ledger_from_environment
from oneslot.runtime.sends.relay import Relay
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.log import WorkerLog
from oneslot.worker.stream import LedgerStream

WITH_NEW_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
"""The view types of a stream that shows what to send. The others show keys, or the row before the commit."""


@click.command(short_help="Send what commits left to send, without Lambda.")
@stack_option
@click.option("--once", is_flag=True, help="Send what waits in the ledger now, and end. It reads the whole table.")
def relay(*, stack: str | None, once: bool) -> int:
    """Send the messages that decisions sent, until SIGTERM or Ctrl-C: first what waits in the ledger, then its stream.

    \b
    oneslot relay --stack Oneslot-dev     a stack on AWS, configured as its function is
    oneslot relay                         by ONESLOT_LEDGER_TABLE ... in the environment, else the local stack

    Each event is one JSON line on standard output. Exit status 1 if a message could not be sent.
    """
    environment, client = _environment(stack)
    surroundings = Surroundings()
    log = WorkerLog(surroundings=surroundings)
    try:
        ledger = ledger_from_environment(environment=environment, client=client("dynamodb"))
    except ValueError as error:
        raise InvalidConfiguration(f"The consumer's configuration is wrong: {error}.") from error
    sender = Relay(ledger, client, log=partial(log.event, "not_sent"))
    if once:
        return _send_waiting(sender, log)
    arn = _stream_of(ledger)
    stopping = surroundings.threads.event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signature of a signal handler
        stopping.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    # Open before the table is read: what is committed meanwhile is in the stream.
    with closing(client("dynamodbstreams")) as streams:
        stream = LedgerStream(streams, arn, sender.consume, log=log, surroundings=surroundings)
        _send_waiting(sender, log)
        stream.run(stopping)
    return 0


def _stream_of(ledger: DynamoDBLedger) -> str:
    """Return the ARN of the ledger's stream. Raises `InvalidConfiguration` if it shows no new images."""
    client: Any = ledger.client
    about = client.describe_table(TableName=ledger.table_name)["Table"]
    # A stream that was disabled still has its ARN.
    stream = about.get("StreamSpecification") or {}
    if not stream.get("StreamEnabled") or stream.get("StreamViewType") not in WITH_NEW_IMAGES:
        raise InvalidConfiguration(
            f"The ledger {ledger.table_name} has no enabled stream of new images; give it one with the view type "
            f"{' or '.join(WITH_NEW_IMAGES)}, or run `oneslot relay --once`."
        )
    arn: str = about["LatestStreamArn"]
    return arn


def _send_waiting(sender: Relay, log: WorkerLog) -> int:
    waiting = [row["message_id"] for row in sender.waiting()]
    failed = sender.send(waiting)
    log.event("sent", rows=len(waiting) - len(failed), failed=len(failed))
    return 1 if failed else 0


def _environment(stack: str | None) -> tuple[Mapping[str, str], Callable[[str], Any]]:
    """Return the consumer's variables, and what makes a service's client, once."""
    make: Any = boto3.client
    environment: Mapping[str, str] = os.environ
    if stack is not None or "ONESLOT_LEDGER_TABLE" not in os.environ:
        target = open_target(stack)
        environment = target.function_variables()
        if target.local:
            make = target.local.connection.client
    return environment, cache(lambda service, **region: make(service, config=client_configuration(threads=1), **region))
