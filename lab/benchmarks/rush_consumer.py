"""One consumer process of the rush: receive batches of ten, call a handler, and delete the messages that did not fail.

    python -m lab.benchmarks.rush_consumer HANDLER LOG   (with the environment of the Lambda function, see `rush.py`)

HANDLER is one of `HANDLERS`. LOG gets a line for each deleted message: its id, the time it was sent, the time it was
done. The process ends with the first empty receive after the file LOG + ".end" appears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3

from lab.benchmarks.batches import BATCH, Handler
from lab.benchmarks.handlers import powertools
from oneslot.runtime.lambda_consumer import client_configuration
from oneslot.runtime.sqs import lambda_event

TIMEOUT_MS = 10_000


class Context:
    """Lambda's context, with a timeout of `TIMEOUT_MS`."""

    function_name = function_version = invoked_function_arn = "rush"
    memory_limit_in_mb = "512"
    aws_request_id = "rush"

    def __init__(self) -> None:
        self._deadline = time.monotonic() + TIMEOUT_MS / 1000

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds left."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def _client(service: str) -> Any:
    session: Any = boto3.Session()
    return session.client(service, config=client_configuration(BATCH))


def _ours() -> Handler:
    import handler

    return handler.lambda_handler


HANDLERS: dict[str, Callable[[], Handler]] = {
    "ours": _ours,
    "powertools": lambda: powertools(_client("dynamodb")),
}


def consume(handle: Handler, log_file: Path) -> None:
    """Consume until the queue is empty and LOG + ".end" exists."""
    sqs, queue_url = _client("sqs"), os.environ["ONESLOT_QUEUE_URL"]
    with log_file.open("a", buffering=1) as log:
        while True:
            received = sqs.receive_message(
                QueueUrl=queue_url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
            ).get("Messages", [])
            if not received:
                if log_file.with_suffix(".end").exists():
                    return
                continue
            event = lambda_event.event(
                received, queue_arn="arn:aws:sqs:eu-west-2:000000000000:requests", region="eu-west-2"
            )
            failed = {failure["itemIdentifier"] for failure in handle(event, Context())["batchItemFailures"]}
            done = [message for message in received if message["MessageId"] not in failed]
            now = time.time_ns() // 1_000_000
            for message in done:
                log.write(
                    f"{json.loads(message['Body'])['message_id']} {message['Attributes']['SentTimestamp']} {now}\n"
                )
            if done:
                entries = [
                    {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                    for number, message in enumerate(done)
                ]
                sqs.delete_message_batch(QueueUrl=queue_url, Entries=entries)


if __name__ == "__main__":
    consume(HANDLERS[sys.argv[1]](), Path(sys.argv[2]))
