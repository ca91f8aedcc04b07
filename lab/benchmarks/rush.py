"""The 8 a.m. rush on the embedded AWS: the real handler and Powertools' under one load.

    python -m lab.benchmarks.rush [--requests 20000] [--handlers ours,Powertools]

Requests follow the practices' demand. 30 % are sent twice, and all are sent at once to consumer processes that receive
batches of ten. Latency is from SQS's SentTimestamp to the moment before deletion, of each request's first copy. All are
sent at once, so most of it is waiting in the queue. What becomes of requests whose consumers die is the soak's question.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from lab.benchmarks.batches import table
from lab.benchmarks.cold_start import ENVIRONMENT
from lab.benchmarks.rush_consumer import TIMEOUT_MS, Done, consume
from lab.benchmarks.rush_load import create_tables, requests, slots
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.runtime.values import to_attributes

HANDLERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ours (default)": ("ours", {"GROUP_COMMIT": "false"}),
    "ours, group commit": ("ours", {"GROUP_COMMIT": "true"}),
    "Powertools": ("powertools", {}),
}
CONSUMERS, PRACTICES = 4, 1_000
ACCOUNT = "500000000000"
Figures = dict[str, Any]


class Rush:
    """One handler's run on an embedded AWS of its own."""

    def __init__(self, aws: EmbeddedAws, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Create the tables, the queue and a slot for each request."""
        connection = aws.connection(ACCOUNT)
        dynamodb: Any = connection.dynamodb()
        self._sqs: Any = connection.sqs()
        self._bodies = bodies
        create_tables(dynamodb)
        items = slots(bodies)
        while chunk := list(islice(items, 25)):
            writes = [{"PutRequest": {"Item": to_attributes(slot)}} for slot in chunk]
            dynamodb.batch_write_item(RequestItems={"slots": writes})
        hidden: Any = {"VisibilityTimeout": str(TIMEOUT_MS // 1000)}
        self._queue = self._sqs.create_queue(QueueName="requests", Attributes=hidden)["QueueUrl"]
        self._environment = {
            **ENVIRONMENT,
            "AWS_ENDPOINT_URL": aws.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "ONESLOT_QUEUE_URL": self._queue,
            "ONESLOT_DEAD_LETTER_QUEUE_URL": self._sqs.create_queue(QueueName="dead-letters")["QueueUrl"],
        }

    def run(self, name: str, folder: Path) -> Figures:
        """Send everything while consumers work, until the queue is empty. Raises what a consumer raised."""
        kind, settings = HANDLERS[name]
        end = folder / "end"
        context = multiprocessing.get_context("spawn")
        started = time.monotonic()
        with ProcessPoolExecutor(CONSUMERS, context) as consumers, ThreadPoolExecutor(1) as sender:
            running = [
                consumers.submit(consume, kind, {**self._environment, **settings}, end) for _ in range(CONSUMERS)
            ]
            try:
                sending = sender.submit(self._send)
                while not sending.done() or sending.result() or self._left():
                    time.sleep(0.25)
                    for each in running:
                        if each.done():
                            each.result()
                seconds = time.monotonic() - started
            finally:
                end.touch()
            return figures(name, len(self._bodies), seconds, [one for each in running for one in each.result()])

    def _send(self) -> None:
        for start in range(0, len(self._bodies), 10):
            bodies = enumerate(self._bodies[start : start + 10])
            entries = [{"Id": str(number), "MessageBody": json.dumps(body)} for number, body in bodies]
            self._sqs.send_message_batch(QueueUrl=self._queue, Entries=entries)

    def _left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=names)["Attributes"]
        return sum(int(counts[name]) for name in names)


def figures(name: str, messages: int, seconds: float, done: Done) -> Figures:
    """Return the rates and latencies of a run."""
    first: dict[str, int] = {}
    for message_id, sent, finished in done:
        first[message_id] = min(finished - sent, first.get(message_id, finished - sent))
    times = sorted(first.values())
    return {
        "handler": name,
        "messages": messages,
        "done": len(done),
        "seconds": seconds,
        "messages/s": len(done) / seconds,
        **{f"p{part} ms": times[len(times) * part // 100] for part in (50, 95, 99)},
    }


def main() -> None:
    """Run each handler on a new embedded AWS, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="requests, before the 30 %% that are sent twice")
    parser.add_argument("--handlers", default=",".join(HANDLERS), help="parts of the names of handlers")
    options = parser.parse_args()
    bodies = requests(PRACTICES, options.requests)
    found = []
    for name in HANDLERS:
        if any(part in name for part in options.handlers.split(",")):
            with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
                found.append(Rush(aws, bodies).run(name, Path(folder)))
    print(table(list(found[0]), [list(one.values()) for one in found]))


if __name__ == "__main__":
    main()
