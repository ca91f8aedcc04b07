"""One consumer process of the rush: receive batches of ten, call a handler, and delete the messages that did not fail."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3

from lab.benchmarks.batches import BATCH
from oneslot.runtime.lambda_consumer import client_configuration
from oneslot.runtime.sqs import lambda_event

TIMEOUT_MS = 10_000
ROOT = Path(__file__).resolve().parents[2]
Done = list[tuple[str, int, int]]
"""The id of each deleted message, the time it was sent, and the time it was done (epoch ms)."""


class Context(lambda_event.Context):
    """Lambda's context, with what Powertools logs of it."""

    function_name = function_version = invoked_function_arn = "rush"
    memory_limit_in_mb = "512"


def consume(kind: str, environment: Mapping[str, str], end: Path) -> Done:
    """Consume with the handler of this kind until the queue is empty and `end` exists, in a process of its own."""
    os.environ.update(environment)
    sys.path.insert(0, str(ROOT / "lambda_src"))
    session: Any = boto3.Session()
    configuration = client_configuration(BATCH)
    handle: Any
    if kind == "ours":
        import handler

        handle = handler.lambda_handler
    else:
        from lab.benchmarks.handlers import powertools

        handle = powertools(session.client("dynamodb", config=configuration))
    sqs, url = session.client("sqs", config=configuration), environment["ONESLOT_QUEUE_URL"]
    done: Done = []
    while True:
        received = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=BATCH,
            WaitTimeSeconds=1,
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        ).get("Messages", [])
        if not received:
            if end.exists():
                return done
            continue
        event = lambda_event.event(
            received, queue_arn="arn:aws:sqs:eu-west-2:000000000000:requests", region="eu-west-2"
        )
        failed = {failure["itemIdentifier"] for failure in handle(event, Context(TIMEOUT_MS))["batchItemFailures"]}
        now = time.time_ns() // 1_000_000
        entries: list[dict[str, str]] = []
        for message in received:
            if message["MessageId"] not in failed:
                sent = int(message["Attributes"]["SentTimestamp"])
                done.append((json.loads(message["Body"])["message_id"], sent, now))
                entries.append({"Id": str(len(entries)), "ReceiptHandle": message["ReceiptHandle"]})
        if entries:
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
