"""The 8 a.m. rush on the embedded AWS: the real handler and the peers under one load, with and without dying consumers.

    python -m benchmarks.rush.__main__ [--requests 20000] [--demand FILE] [--kill-every 3] [--handlers ours,Powertools] [--json]

Requests for the practices' demand (a file of the shape that `oneslot seed --demand` reads, or made up), 30 % of them sent
twice, all at once, to consumer processes that receive batches of ten. With `--kill-every` one consumer after the other is
killed (SIGKILL) and replaced, the first as soon as a message is done; its messages come back after the visibility timeout.
Then the tables are read: who holds more than one slot, who holds nothing and was told nothing. Latency is from SQS's
SentTimestamp to the moment before deletion, of each request's first copy; all are sent at once, so most of it is the queue.

Where the time goes: the CPU of all consumers, of the embedded AWS and of this process, which sends and watches; and before the
load a profile (cProfile, CPU time) of the handler in a consumer of its own, in one thread, on some requests more.

`--seconds` bounds all handlers together; each may use its share of what is left, and then says what it reached. Of a run that
was stopped, only what a consumer has acknowledged can count as lost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.bench_kit import print_figures, table
from benchmarks.cold_start import ENVIRONMENT
from benchmarks.ending import ended
from benchmarks.rush.load import create_tables, demands, requests, slots
from benchmarks.rush.watching import LineCount, Progress, cpu_seconds, megabytes, shares
from benchmarks.rush.worker import TIMEOUT_MS
from oneslot.errors import BadInput
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.runtime.stores.expressions import to_attributes

# Ours first: each handler gets its share of the time that is left, and what the quick ones do not need the slow ones have.
HANDLERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ours (default)": ("ours", {"GROUP_COMMIT": "false"}),
    "ours, group commit": ("ours", {"GROUP_COMMIT": "true"}),
    "(a) Powertools": ("powertools", {}),
    "(b) ledger by hand": ("by-hand", {}),
}
REACHED: Mapping[str, str] = {
    "handler": "handler",
    "messages": "messages",
    "done": "done",
    "seconds": "seconds",
    "per_second": "messages/s",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "p99_ms": "p99 ms",
    "killed": "killed",
    "double_booked": "double-booked",
    "lost": "lost",
    "dead_letters": "dead letters",
}
"""Figures of the first table, with their headings."""
CONSUMERS = 4
MEMORY_SAMPLES = 20
PROFILED_REQUESTS = 100
PROFILE_SECONDS = 60
REGION = "eu-west-2"
ACCOUNT = "500000000000"
SOURCE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Figures:
    """One handler's rush. `done` counts deleted messages; `drained` says whether all were, in time.

    `cpu_ms` is for each message, by process; `memory` has seconds, MB of the largest consumer and MB of the server, at each
    twentieth of the load; `packages` and `functions` are shares of the profiled handler's CPU.
    """

    handler: str
    messages: int
    done: int
    drained: bool
    seconds: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    killed: int
    double_booked: int
    lost: int
    dead_letters: int
    cpu_ms: Mapping[str, float]
    memory: Sequence[tuple[float, float, float]]
    packages: Mapping[str, float]
    functions: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Load:
    """What is sent, to be profiled and then to be measured; seconds between two killed consumers (0: none)."""

    bodies: Sequence[Mapping[str, Any]]
    profiled: Sequence[Mapping[str, Any]]
    kill_every: float


@dataclass(frozen=True)
class Measured:
    """Of one run: what its `Figures` are made of. CPU in seconds."""

    seconds: float
    drained: bool
    killed: int
    cpu: Mapping[str, float]
    memory: Sequence[tuple[float, float, float]]


class Rush:
    """One handler's run on an embedded AWS of its own."""

    def __init__(self, aws: EmbeddedAws, folder: Path, load: Load) -> None:
        connection = aws.connection(ACCOUNT)
        self._dynamodb: Any = connection.dynamodb()
        self._sqs: Any = connection.sqs()
        self._aws, self._folder, self._load = aws, folder, load

    def prepare(self) -> None:
        """Tables, queues, and a slot for each request."""
        create_tables(self._dynamodb)
        items = slots([*self._load.bodies, *self._load.profiled])
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
        """Send everything while consumers work, until the queue is empty, or until `end` (of the monotonic clock)."""
        kind, settings = HANDLERS[name]
        profile = self._profile(kind, settings)
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
        return self._figures(name, logs, measured, profile)

    def _watch(
        self,
        name: str,
        consumers: list[subprocess.Popen[bytes]],
        logs: Sequence[Path],
        end: float,
    ) -> Measured:
        kind, settings = HANDLERS[name]
        bodies, kill_every = self._load.bodies, self._load.kill_every
        counts = [LineCount(log) for log in logs]
        progress, stop = Progress(name, len(bodies)), threading.Event()
        killed, killed_cpu, victim, drained = 0, 0.0, 0, False
        memory: list[tuple[float, float, float]] = []
        server_cpu, own_cpu = cpu_seconds(self._aws.pid or 0), time.process_time()
        started = next_kill = time.monotonic()
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(self._send, bodies, stop)
            try:
                while not drained and time.monotonic() < end:
                    time.sleep(0.25)
                    done = sum(count.read() for count in counts)
                    progress.show(done)
                    if done >= len(bodies) * (len(memory) + 1) / MEMORY_SAMPLES:
                        largest = max(megabytes(one.pid) for one in consumers)
                        memory.append((time.monotonic() - started, largest, megabytes(self._aws.pid or 0)))
                    self._still_running(name, consumers, logs)
                    if sending.done():
                        sending.result()  # raises what ended it
                        drained = self._left() == 0
                    if kill_every and done and time.monotonic() >= next_kill and not drained:
                        killed_cpu += cpu_seconds(consumers[victim].pid)
                        consumers[victim].send_signal(signal.SIGKILL)
                        consumers[victim].wait()
                        consumers[victim] = self._consumer(kind, settings, logs[victim])
                        killed, victim = killed + 1, (victim + 1) % CONSUMERS
                        next_kill = time.monotonic() + kill_every
                took = time.monotonic() - started
                cpu = {
                    "consumers": killed_cpu + sum(cpu_seconds(one.pid) for one in consumers),
                    "embedded AWS": cpu_seconds(self._aws.pid or 0) - server_cpu,
                    "sending and watching": time.process_time() - own_cpu,
                }
            finally:
                progress.end()
                stop.set()
        if not drained:
            for log in logs:
                log.with_suffix(".stop").touch()
        return Measured(took, drained, killed, cpu, memory)

    def _still_running(self, name: str, consumers: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path]) -> None:
        for consumer, log in zip(consumers, logs, strict=True):
            if consumer.poll() is not None:
                output = log.with_suffix(".out").read_text()[-2000:]
                raise RuntimeError(f"{name}: a consumer ended with status {consumer.returncode}: {output}")

    def _profile(self, kind: str, settings: Mapping[str, str]) -> Path:
        """Profile one consumer in one thread, before the load; where the statistics are, if it was done in time."""
        log = self._folder / "profiled"
        log.with_suffix(".end").touch()
        self._send(self._load.profiled, threading.Event())
        profile = log.with_suffix(".profile")
        consumer = self._consumer(kind, {**settings, "BATCH_CONCURRENCY": "1"}, log, str(profile))
        try:
            status = consumer.wait(timeout=PROFILE_SECONDS)
        except subprocess.TimeoutExpired:
            self._sqs.purge_queue(QueueUrl=self._queue)
            return profile
        finally:
            consumer.kill()
            consumer.wait()
        if status:
            output = log.with_suffix(".out").read_text()[-2000:]
            raise RuntimeError(f"the profiled consumer ended with status {status}: {output}")
        return profile

    def _consumer(self, kind: str, settings: Mapping[str, str], log: Path, *more: str) -> subprocess.Popen[bytes]:
        environment = {
            **ENVIRONMENT,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(SOURCE / "lambda_src"), str(SOURCE))),
            "AWS_ENDPOINT_URL": self._aws.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_DEFAULT_REGION": REGION,
            "QUEUE_URL": self._queue,
            "DEAD_LETTER_QUEUE_URL": self._dead_letters,
            **settings,
        }
        command = [sys.executable, "-m", "benchmarks.rush.worker", kind, str(log), *more]
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
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=names)["Attributes"]
        return sum(int(answer[name]) for name in names)

    def _figures(self, name: str, logs: Sequence[Path], measured: Measured, profile: Path) -> Figures:
        bodies = self._load.bodies
        packages, functions = shares(profile) if profile.exists() else ({}, [])
        latency: dict[str, int] = {}
        done = 0
        for log in logs:
            for line in log.read_text().splitlines() if log.exists() else ():
                message_id, sent, finished = line.split()
                took = int(finished) - int(sent)
                latency[message_id] = min(took, latency.get(message_id, took))
                done += 1
        times = sorted(latency.values()) or [0]
        pages = self._dynamodb.get_paginator("scan")
        held = Counter(
            item["appointment_id"]["S"]
            for page in pages.paginate(TableName="slots")
            for item in page["Items"]
            if "appointment_id" in item
        )
        answered = {
            item["appointment_id"]["S"] for page in pages.paginate(TableName="appointments") for item in page["Items"]
        }
        owed = {body["message_id"] for body in bodies} if measured.drained else set(latency)
        dead = self._sqs.get_queue_attributes(
            QueueUrl=self._dead_letters, AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]["ApproximateNumberOfMessages"]
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
            double_booked=sum(1 for number in held.values() if number > 1),
            lost=len(owed - answered),
            dead_letters=int(dead),
            cpu_ms={process: seconds * 1000 / max(1, done) for process, seconds in measured.cpu.items()},
            memory=measured.memory,
            packages=packages,
            functions=functions,
        )


def run(load: Load, names: Sequence[str], seconds: float) -> Iterator[Figures]:
    """Each handler on an embedded AWS of its own, which nobody used before, in so many seconds all together."""
    end = time.monotonic() + seconds
    for position, handler in enumerate(names):
        own_end = time.monotonic() + (end - time.monotonic()) / (len(names) - position)
        with tempfile.TemporaryDirectory() as name, EmbeddedAws(Path(name) / "aws") as aws:
            rush = Rush(aws, Path(name), load)
            rush.prepare()
            yield rush.run(handler, own_end)


def tables(figures: Sequence[Figures]) -> str:
    """As Markdown: what was reached, where the time went, and the functions of the handlers."""
    reached = [[getattr(one, name) for name in REACHED] for one in figures]
    processes = list(figures[0].cpu_ms)
    costs = [
        [one.handler, *one.cpu_ms.values(), sum(one.cpu_ms.values()) * one.per_second / 1000]
        + [over_time([sample[column] for sample in one.memory]) for column in (1, 2)]
        for one in figures
    ]
    names = list(dict.fromkeys(name for one in figures for name in list(one.packages)[:6]))
    profiles = [[one.handler, *(f"{one.packages.get(name, 0.0):.0%}" for name in names)] for one in figures]
    functions = [
        [one.handler, ", ".join(f"{name} {share:.0%}" for name, share in one.functions[:5])] for one in figures
    ]
    cpu = [f"CPU ms/msg: {process}" for process in processes]
    stopped = [one.handler for one in figures if not one.drained]
    said = f"Stopped before the queue was empty, at their share of the time: {', '.join(stopped)}." if stopped else ""
    return "\n\n".join(
        [
            table(list(REACHED.values()), reached),
            *([said] if said else []),
            table(["handler", *cpu, "cores busy", "consumer MB", "server MB"], costs),
            f"The handler's CPU by package:\n\n{table(['handler', *names], profiles)}",
            f"The handler's functions with the most CPU of their own:\n\n{table(['handler', 'functions'], functions)}",
        ]
    )


def over_time(values: Sequence[float]) -> str:
    """The first value, those at the quarters, and the last, with arrows between them."""
    if not values:
        return ""
    chosen = [values[round(quarter * (len(values) - 1) / 4)] for quarter in range(5)]
    return " → ".join(f"{value:.0f}" for value in chosen)


def main() -> int:
    """Print the table. Returns the exit status: 130 after an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="before the 30 %% that are sent twice")
    parser.add_argument("--practices", type=int, default=1_000)
    parser.add_argument("--demand", type=Path, help="a file of appointments by practice; without it, made up")
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two killed consumers; 0: none")
    parser.add_argument("--handlers", default=",".join(HANDLERS))
    parser.add_argument("--seconds", type=float, default=3_600, help="for all handlers together; then what was reached")
    parser.add_argument("--json", action="store_true", help="figures as lines of JSON, each as soon as it is there")
    options = parser.parse_args()
    for name in ("requests", "practices", "seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be more than 0")
    if options.kill_every < 0:
        parser.error("--kill-every must be seconds, or 0 for none")
    names = [name for name in HANDLERS if any(part in name for part in options.handlers.split(","))]
    if not names:
        parser.error(f"--handlers: none of {', '.join(HANDLERS)} has {options.handlers!r} in its name")
    try:
        chosen = demands(options.demand, options.practices)
    except BadInput as error:
        parser.error(f"--demand: {error}")
    profiled = requests(chosen, PROFILED_REQUESTS, seed=2, prefix="p")
    load = Load(requests(chosen, options.requests), profiled, options.kill_every)
    return print_figures(run(load, names, options.seconds), tables, as_lines=options.json)


if __name__ == "__main__":
    sys.exit(ended(main))
