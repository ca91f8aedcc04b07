"""One handler's rush: prepare an embedded AWS, send while consumers work, and read the tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lab.benchmarks.cold_start import ENVIRONMENT
from lab.benchmarks.rush.consumer import TIMEOUT_MS
from lab.benchmarks.rush.figures import Figures
from lab.benchmarks.rush.load import create_tables, slots
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.runtime.values import to_attributes

# Ours first: each handler gets a share of the time that is left, so the slow ones also get what the quick ones leave.
HANDLERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ours (default)": ("ours", {"GROUP_COMMIT": "false"}),
    "ours, group commit": ("ours", {"GROUP_COMMIT": "true"}),
    "(a) Powertools": ("powertools", {}),
    "(b) ledger by hand": ("by-hand", {}),
}
CONSUMERS = 4
REGION = "eu-west-2"
ACCOUNT = "500000000000"
SOURCE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Load:
    """Requests to measure, and the seconds between two kills (0: none)."""

    bodies: Sequence[Mapping[str, Any]]
    kill_every: float


@dataclass(frozen=True)
class Measured:
    """The measurements of one run."""

    seconds: float
    drained: bool
    killed: int


class LineCount:
    """The number of lines in a growing file. Each read covers only the new part."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._lines = path, 0, 0

    def read(self) -> int:
        """Return the lines so far; 0 if the file does not exist yet."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            self._lines += new.count(b"\n")
        return self._lines


class Rush:
    """One handler's run on an embedded AWS of its own."""

    def __init__(self, aws: EmbeddedAws, folder: Path, load: Load) -> None:
        connection = aws.connection(ACCOUNT)
        self._dynamodb: Any = connection.dynamodb()
        self._sqs: Any = connection.sqs()
        self._aws, self._folder, self._load = aws, folder, load

    def prepare(self) -> None:
        """Create the tables, the queues and a slot for each request."""
        create_tables(self._dynamodb)
        items = slots(self._load.bodies)
        while chunk := list(islice(items, 25)):
            writes = [{"PutRequest": {"Item": to_attributes(slot)}} for slot in chunk]
            self._dynamodb.batch_write_item(RequestItems={"slots": writes})
        self._dead_letters = self._sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead-letters"
        self._queue = self._sqs.create_queue(
            QueueName="requests",
            Attributes={
                "VisibilityTimeout": str(TIMEOUT_MS // 1000),
                "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "10"}),
            },
        )["QueueUrl"]

    def run(self, name: str, end: float) -> Figures:
        """Send everything while consumers work, until the queue is empty or the monotonic clock reaches `end`."""
        kind, settings = HANDLERS[name]
        logs = [self._folder / f"consumer-{number}" for number in range(CONSUMERS)]
        consumers = [self._consumer(kind, settings, log) for log in logs]
        try:
            measured = self._watch(name, consumers, logs, end)
            for log in logs:
                log.with_suffix(".end").touch()
            for consumer in consumers:
                consumer.wait(timeout=60)
        finally:
            for consumer in consumers:
                consumer.kill()
                consumer.wait()
        return self._figures(name, logs, measured)

    def _watch(
        self,
        name: str,
        consumers: list[subprocess.Popen[bytes]],
        logs: Sequence[Path],
        end: float,
    ) -> Measured:
        kind, settings = HANDLERS[name]
        bodies, kill_every = self._load.bodies, self._load.kill_every
        counts, stop = [LineCount(log) for log in logs], threading.Event()
        killed, victim, drained = 0, 0, False
        started = next_kill = time.monotonic()
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(self._send, bodies, stop)
            try:
                while not drained and time.monotonic() < end:
                    time.sleep(0.25)
                    done = sum(count.read() for count in counts)
                    self._still_running(name, consumers, logs)
                    if sending.done():
                        sending.result()  # raises what ended it
                        drained = self._left() == 0
                    if kill_every and done and time.monotonic() >= next_kill and not drained:
                        consumers[victim].send_signal(signal.SIGKILL)
                        consumers[victim].wait()
                        consumers[victim] = self._consumer(kind, settings, logs[victim])
                        killed, victim = killed + 1, (victim + 1) % CONSUMERS
                        next_kill = time.monotonic() + kill_every
                took = time.monotonic() - started
            finally:
                stop.set()
        if not drained:
            for log in logs:
                log.with_suffix(".stop").touch()
        return Measured(took, drained, killed)

    def _still_running(self, name: str, consumers: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path]) -> None:
        for consumer, log in zip(consumers, logs, strict=True):
            if consumer.poll() is not None:
                output = log.with_suffix(".out").read_text()[-2000:]
                raise RuntimeError(f"{name}: a consumer ended with status {consumer.returncode}: {output}")

    def _consumer(self, kind: str, settings: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        environment = {
            **ENVIRONMENT,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(SOURCE / "lambda_src"), str(SOURCE))),
            "AWS_ENDPOINT_URL": self._aws.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_DEFAULT_REGION": REGION,
            "ONESLOT_QUEUE_URL": self._queue,
            "ONESLOT_DEAD_LETTER_QUEUE_URL": self._dead_letters,
            **settings,
        }
        command = [sys.executable, "-m", "lab.benchmarks.rush.consumer", kind, str(log)]
        with log.with_suffix(".out").open("ab") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _send(self, bodies: Sequence[Mapping[str, Any]], stop: threading.Event) -> None:
        for start in range(0, len(bodies), 10):
            if stop.is_set():
                return
            entries = [
                {"Id": str(number), "MessageBody": json.dumps(body)}
                for number, body in enumerate(bodies[start : start + 10])
            ]
            self._sqs.send_message_batch(QueueUrl=self._queue, Entries=entries)

    def _left(self) -> int:
        return self._messages_in(self._queue, "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")

    def _messages_in(self, queue_url: str, *names: str) -> int:
        counts = self._sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=list(names))["Attributes"]
        return sum(int(counts[name]) for name in names)

    def _appointment_ids(self, table: str) -> list[str]:
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=table)
        items = (item for page in pages for item in page["Items"])
        return [item["appointment_id"]["S"] for item in items if "appointment_id" in item]

    def _figures(self, name: str, logs: Sequence[Path], measured: Measured) -> Figures:
        bodies = self._load.bodies
        latencies = list(_latencies(logs))
        first: dict[str, int] = {}
        for message_id, took in latencies:
            first[message_id] = min(took, first.get(message_id, took))
        times, done = sorted(first.values()) or [0], len(latencies)
        owed = {body["message_id"] for body in bodies} if measured.drained else set(first)
        return Figures(
            handler=name,
            messages=len(bodies),
            done=done,
            drained=measured.drained,
            seconds=measured.seconds,
            per_second=done / measured.seconds,
            p50_ms=times[len(times) // 2],
            p95_ms=times[len(times) * 95 // 100],
            p99_ms=times[len(times) * 99 // 100],
            killed=measured.killed,
            double_booked=sum(number > 1 for number in Counter(self._appointment_ids("slots")).values()),
            lost=len(owed - set(self._appointment_ids("appointments"))),
            dead_letters=self._messages_in(self._dead_letters, "ApproximateNumberOfMessages"),
        )


def _latencies(logs: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """Yield the message id of each deleted message, and the milliseconds from sent to done."""
    for log in logs:
        for line in log.read_text().splitlines() if log.exists() else ():
            message_id, sent, finished = line.split()
            yield message_id, int(finished) - int(sent)
