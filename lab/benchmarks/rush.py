"""The 8 a.m. rush on the embedded AWS: the real handler and Powertools' under one load, with and without dying consumers.

    python -m lab.benchmarks.rush [--requests 20000] [--kill-every 3] [--handlers ours,Powertools]

Requests follow the practices' demand. 30 % are sent twice, and all are sent at once to consumer processes that receive
batches of ten. With `--kill-every`, consumers are killed (SIGKILL) in turn and replaced, the first as soon as a message is
done; SQS redelivers their messages after the visibility timeout. Then the tables are read for requests that hold two slots
and for requests without an answer. Latency is from SQS's SentTimestamp to the moment before deletion, of each request's
first copy. All are sent at once, so most of it is waiting in the queue.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from lab.benchmarks.batches import table
from lab.benchmarks.cold_start import ENVIRONMENT
from lab.benchmarks.rush_consumer import TIMEOUT_MS
from lab.benchmarks.rush_load import create_tables, requests, slots
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.runtime.values import to_attributes

HANDLERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ours (default)": ("ours", {"GROUP_COMMIT": "false"}),
    "ours, group commit": ("ours", {"GROUP_COMMIT": "true"}),
    "Powertools": ("powertools", {}),
}
CONSUMERS = 4
REGION, ACCOUNT = "eu-west-2", "500000000000"
SOURCE = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 3_600
Figures = dict[str, Any]


class Rush:
    """One handler's run on an embedded AWS of its own. `kill_every`: seconds between two kills, 0 for none."""

    def __init__(self, aws: EmbeddedAws, folder: Path, bodies: Sequence[Mapping[str, Any]], kill_every: float) -> None:
        connection = aws.connection(ACCOUNT)
        self._dynamodb: Any = connection.dynamodb()
        self._sqs: Any = connection.sqs()
        self._aws, self._bodies, self._kill_every = aws, bodies, kill_every
        self._logs = [folder / f"consumer-{number}" for number in range(CONSUMERS)]

    def prepare(self) -> None:
        """Create the tables, the queues and a slot for each request."""
        create_tables(self._dynamodb)
        items = slots(self._bodies)
        while chunk := list(islice(items, 25)):
            writes = [{"PutRequest": {"Item": to_attributes(slot)}} for slot in chunk]
            self._dynamodb.batch_write_item(RequestItems={"slots": writes})
        self._dead_letters = self._sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead-letters"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "10"})
        attributes = {"VisibilityTimeout": str(TIMEOUT_MS // 1000), "RedrivePolicy": policy}
        self._queue = self._sqs.create_queue(QueueName="requests", Attributes=attributes)["QueueUrl"]

    def run(self, name: str) -> Figures:
        """Send everything while consumers work, until the queue is empty. Raises RuntimeError if a consumer ends."""
        kind, settings = HANDLERS[name]
        consumers = [self._consumer(kind, settings, log) for log in self._logs]
        killed = 0
        started = next_kill = time.monotonic()
        try:
            with ThreadPoolExecutor(1) as sender:
                sending = sender.submit(self._send)
                while not sending.done() or sending.result() or self._messages_in(self._queue, hidden=True):
                    time.sleep(0.25)
                    for consumer, log in zip(consumers, self._logs, strict=True):
                        if consumer.poll() is not None or time.monotonic() - started > LONGEST_SECONDS:
                            output = log.with_suffix(".out").read_text()[-2000:]
                            raise RuntimeError(f"{name}: a consumer ended, or the time is over: {output}")
                    if self._kill_every and time.monotonic() >= next_kill and any(map(_lines, self._logs)):
                        victim, killed = killed % CONSUMERS, killed + 1
                        consumers[victim].send_signal(signal.SIGKILL)
                        consumers[victim].wait()
                        consumers[victim] = self._consumer(kind, settings, self._logs[victim])
                        next_kill = time.monotonic() + self._kill_every
                seconds = time.monotonic() - started
            for consumer, log in zip(consumers, self._logs, strict=True):
                log.with_suffix(".end").touch()
                consumer.wait(timeout=60)
        finally:
            for consumer in consumers:
                consumer.kill()
                consumer.wait()
        return self._figures(name, seconds, killed)

    def _consumer(self, kind: str, settings: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        environment = {
            **ENVIRONMENT,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(SOURCE / "lambda_src"), str(SOURCE))),
            "AWS_ENDPOINT_URL": self._aws.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "ONESLOT_QUEUE_URL": self._queue,
            "ONESLOT_DEAD_LETTER_QUEUE_URL": self._dead_letters,
            **settings,
        }
        command = [sys.executable, "-m", "lab.benchmarks.rush_consumer", kind, str(log)]
        with log.with_suffix(".out").open("ab") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _send(self) -> None:
        for start in range(0, len(self._bodies), 10):
            bodies = enumerate(self._bodies[start : start + 10])
            entries = [{"Id": str(number), "MessageBody": json.dumps(body)} for number, body in bodies]
            self._sqs.send_message_batch(QueueUrl=self._queue, Entries=entries)

    def _messages_in(self, queue_url: str, *, hidden: bool = False) -> int:
        names = ["ApproximateNumberOfMessages", *(["ApproximateNumberOfMessagesNotVisible"] if hidden else [])]
        counts = self._sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
        return sum(int(counts[name]) for name in names)

    def _appointment_ids(self, name: str) -> list[str]:
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=name)
        items = (item for page in pages for item in page["Items"])
        return [item["appointment_id"]["S"] for item in items if "appointment_id" in item]

    def _figures(self, name: str, seconds: float, killed: int) -> Figures:
        done = [line.split() for log in self._logs for line in _lines(log)]
        first: dict[str, int] = {}
        for message_id, sent, finished in done:
            took = int(finished) - int(sent)
            first[message_id] = min(took, first.get(message_id, took))
        times = sorted(first.values())
        requested = {body["message_id"] for body in self._bodies}
        return {
            "handler": name,
            "messages": len(self._bodies),
            "done": len(done),
            "seconds": seconds,
            "messages/s": len(done) / seconds,
            **{f"p{part} ms": times[len(times) * part // 100] for part in (50, 95, 99)},
            "killed": killed,
            "double-booked": sum(number > 1 for number in Counter(self._appointment_ids("slots")).values()),
            "lost": len(requested - set(self._appointment_ids("appointments"))),
            "dead letters": self._messages_in(self._dead_letters),
        }


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def main() -> None:
    """Run each handler on a new embedded AWS, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="requests, before the 30 %% that are sent twice")
    parser.add_argument("--practices", type=int, default=1_000, help="number of practices")
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two kills; 0: none")
    parser.add_argument("--handlers", default=",".join(HANDLERS), help="parts of the names of handlers")
    options = parser.parse_args()
    bodies = requests(options.practices, options.requests)
    figures = []
    for name in HANDLERS:
        if any(part in name for part in options.handlers.split(",")):
            with tempfile.TemporaryDirectory() as folder, EmbeddedAws(Path(folder) / "aws") as aws:
                rush = Rush(aws, Path(folder), bodies, options.kill_every)
                rush.prepare()
                figures.append(rush.run(name))
    print(table(list(figures[0]), [list(one.values()) for one in figures]))


if __name__ == "__main__":
    main()
