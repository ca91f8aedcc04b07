"""The 8 a.m. rush on the embedded AWS: the real handler and the peers under one load, with and without dying consumers.

    python -m benchmarks.rush [--requests 20000] [--demand FILE] [--kill-every 3] [--handlers ours,powertools] [--json]

Requests for the practices' demand (a file of the shape that `oneslot seed --demand` reads, or made up), 30 % of them sent
twice, all at once, to consumer processes that receive batches of ten. With `--kill-every` one consumer after the other is
killed (SIGKILL) and replaced; its messages come back after the visibility timeout. Then the tables are read: who holds more
than one slot, who holds nothing and was told nothing. Latency is from SQS's SentTimestamp to the moment before deletion, of
each request's first copy; all are sent at once, so most of it is the queue. Memory is the largest consumer's and the server's,
at the quarters.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from appointments.messages import DELIVERY_CHANNELS
from appointments.schedule import utc_text
from benchmarks.bench_kit import NHS_NUMBER, SERVICE, free_slot, table
from benchmarks.cold_start import ENVIRONMENT
from benchmarks.rush_worker import TIMEOUT_MS
from benchmarks.standin import ALL_TABLES
from exactly_once.dynamodb import to_attributes
from oneslot.demand import Demand, read_demand, synthetic_demand
from oneslot.local.embedded_aws import EmbeddedAws
from oneslot.practices import synthetic_practices

HANDLERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "(a) Powertools": ("powertools", {}),
    "(b) ledger by hand": ("by-hand", {}),
    "ours (default)": ("ours", {"GROUP_COMMIT": "false"}),
    "ours, group commit": ("ours", {"GROUP_COMMIT": "true"}),
}
DUPLICATES = 0.3
CONSUMERS = 4
REGION = "eu-west-2"
SOURCE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figures:
    """One handler's rush. Times in seconds and milliseconds; memory in MB at the quarters of the load."""

    handler: str
    messages: int
    seconds: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    killed: int
    double_booked: int
    lost: int
    dead_letters: int
    consumer_mb: tuple[float, ...]
    server_mb: tuple[float, ...]


def demands(path: Path | None, practices: int, seed: int = 1) -> list[Demand]:
    """So many practices with their demand, chosen at random from the file, or made up."""
    if path is None:
        return list(synthetic_demand(synthetic_practices(practices), seed))
    known = list(read_demand(path))
    return random.Random(seed).sample(known, min(practices, len(known)))


def requests(chosen: Sequence[Demand], number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Bodies in the order of sending: each practice as often as its demand says, 30 % of them twice."""
    rng = random.Random(seed)
    first = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0) + timedelta(days=7)
    picked = rng.choices(chosen, [one.appointments for one in chosen], k=number)
    bodies = [
        {
            "message_id": f"r-{position}",
            "type": "book",
            "practice": demand.practice,
            "nhs_number": NHS_NUMBER,
            "not_before": utc_text(first),
            "not_after": utc_text(first + timedelta(days=5)),
            "delivery_channel": rng.choices(DELIVERY_CHANNELS, demand.channels)[0],
            "service_type": SERVICE,
        }
        for position, demand in enumerate(picked)
    ]
    copies = rng.sample(range(number), round(number * DUPLICATES))
    order = [(position, position) for position in range(number)] + [
        (position + rng.randrange(1, 100), position) for position in copies
    ]
    return [bodies[position] for _, position in sorted(order)]


def slots(bodies: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """As many free slots for each practice and channel as will be asked for, so that nobody has to wait."""
    wanted = Counter(
        (one["practice"], one["delivery_channel"]) for one in {b["message_id"]: b for b in bodies}.values()
    )
    first = datetime.fromisoformat(str(bodies[0]["not_before"]))
    for (practice, channel), number in wanted.items():
        for position in range(number):
            start = first + timedelta(minutes=10 * (position % 50), days=position // 50 % 5)
            slot_id = f"{start:%Y%m%dT%H%MZ}-{channel[0]}{position // 250:02}"
            yield free_slot(practice, slot_id, start, channel)


@dataclass(frozen=True)
class Measured:
    """Of one run: seconds, consumers killed, and the memory of the largest consumer and of the server at the quarters (MB)."""

    seconds: float
    killed: int
    memory: tuple[tuple[float, ...], ...]


class Rush:
    """One handler's run against an account of its own."""

    def __init__(self, aws: EmbeddedAws, account: str, folder: Path) -> None:
        connection = aws.connection(account)
        self._dynamodb: Any = connection.dynamodb()
        self._sqs: Any = connection.sqs()
        self._aws, self._account, self._folder = aws, account, folder

    def prepare(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Tables, queues and slots."""
        for name, keys in ALL_TABLES.items():
            attributes = [*keys.keys, *keys.indexes.values()]
            indexes = [
                {
                    "IndexName": index,
                    "KeySchema": _key_schema(keys.partition_key, sort_key),
                    "Projection": {"ProjectionType": "ALL"},
                }
                for index, sort_key in keys.indexes.items()
            ]
            self._dynamodb.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=_key_schema(*keys.keys),
                AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in attributes],
                **({"LocalSecondaryIndexes": indexes} if indexes else {}),
            )
        items = slots(bodies)
        while chunk := list(islice(items, 25)):
            writes = [{"PutRequest": {"Item": to_attributes(slot)}} for slot in chunk]
            self._dynamodb.batch_write_item(RequestItems={"slots": writes})
        self._dead_letters = self._sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        arn = f"arn:aws:sqs:{REGION}:{self._account}:dead-letters"
        self._queue = self._sqs.create_queue(
            QueueName="requests",
            Attributes={
                "VisibilityTimeout": str(TIMEOUT_MS // 1000),
                "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "10"}),
            },
        )["QueueUrl"]

    def run(self, name: str, bodies: Sequence[Mapping[str, Any]], kill_every: float) -> Figures:
        """Send everything while consumers work, until the queue is empty."""
        kind, settings = HANDLERS[name]
        logs = [self._folder / f"{self._account}-{number}" for number in range(CONSUMERS)]
        consumers = [self._consumer(kind, settings, log) for log in logs]
        sender = threading.Thread(target=self._send, args=(bodies,))
        started = time.monotonic()
        sender.start()
        killed, next_kill, victim = 0, started + kill_every, 0
        memory: list[tuple[float, float]] = []
        while True:
            time.sleep(0.25)
            done = sum(_lines(log) for log in logs)
            if len(memory) < 4 and done >= len(bodies) * (len(memory) + 1) / 4:
                memory.append((max(_megabytes(one.pid) for one in consumers), _megabytes(self._aws.pid or 0)))
            if not sender.is_alive() and self._left() == 0:
                break
            if kill_every and done and time.monotonic() >= next_kill:
                consumers[victim].send_signal(signal.SIGKILL)
                consumers[victim].wait()
                consumers[victim] = self._consumer(kind, settings, logs[victim])
                killed, victim = killed + 1, (victim + 1) % CONSUMERS
                next_kill = time.monotonic() + kill_every
        seconds = time.monotonic() - started
        for log in logs:
            log.with_suffix(".end").touch()
        for consumer in consumers:
            consumer.wait(timeout=60)
        measured = Measured(seconds, killed, tuple(zip(*memory, strict=True)) or ((), ()))
        return self._figures(name, bodies, logs, measured)

    def _consumer(self, kind: str, settings: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        environment = {
            **ENVIRONMENT,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(SOURCE / "lambda_src"), str(SOURCE))),
            "AWS_ENDPOINT_URL": self._aws.endpoint_url,
            "AWS_ACCESS_KEY_ID": self._account,
            "AWS_DEFAULT_REGION": REGION,
            "QUEUE_URL": self._queue,
            "DEAD_LETTER_QUEUE_URL": self._dead_letters,
            **settings,
        }
        command = [sys.executable, "-m", "benchmarks.rush_worker", kind, str(log)]
        with log.with_suffix(".out").open("ab") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _send(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(bodies), 10):
            entries = [
                {"Id": str(number), "MessageBody": json.dumps(body)}
                for number, body in enumerate(bodies[start : start + 10])
            ]
            self._sqs.send_message_batch(QueueUrl=self._queue, Entries=entries)

    def _left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=names)["Attributes"]
        return sum(int(answer[name]) for name in names)

    def _figures(
        self,
        name: str,
        bodies: Sequence[Mapping[str, Any]],
        logs: Sequence[Path],
        measured: Measured,
    ) -> Figures:
        latency: dict[str, int] = {}
        for log in logs:
            for line in log.read_text().splitlines() if log.exists() else ():
                message_id, sent, done = line.split()
                took = int(done) - int(sent)
                latency[message_id] = min(took, latency.get(message_id, took))
        times = sorted(latency.values())
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
        dead = self._sqs.get_queue_attributes(
            QueueUrl=self._dead_letters, AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]["ApproximateNumberOfMessages"]
        return Figures(
            handler=name,
            messages=len(bodies),
            seconds=measured.seconds,
            per_second=len(bodies) / measured.seconds,
            p50_ms=times[len(times) // 2],
            p95_ms=times[len(times) * 95 // 100],
            p99_ms=times[len(times) * 99 // 100],
            killed=measured.killed,
            double_booked=sum(1 for number in held.values() if number > 1),
            lost=len({body["message_id"] for body in bodies} - answered),
            dead_letters=int(dead),
            consumer_mb=tuple(map(round, measured.memory[0])),
            server_mb=tuple(map(round, measured.memory[1])),
        )


def _key_schema(partition_key: str, sort_key: str = "") -> list[dict[str, str]]:
    schema = [{"AttributeName": partition_key, "KeyType": "HASH"}]
    return [*schema, {"AttributeName": sort_key, "KeyType": "RANGE"}] if sort_key else schema


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _megabytes(pid: int) -> float:
    """Resident memory of a process; 0 if it has gone, or where there is no /proc."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def run(number: int, names: Sequence[str], demand: Path | None, practices: int, kill_every: float) -> list[Figures]:
    """Each handler in an account of its own, one after the other."""
    bodies = requests(demands(demand, practices), number)
    figures = []
    with tempfile.TemporaryDirectory() as name, EmbeddedAws(Path(name) / "aws") as aws:
        for position, handler in enumerate(names):
            rush = Rush(aws, str(500_000_000_000 + position), Path(name))
            rush.prepare(bodies)
            figures.append(rush.run(handler, bodies, kill_every))
            aws.reset()
    return figures


def tables(figures: Sequence[Figures]) -> str:
    """As Markdown."""
    header = ["handler", "messages", "seconds", "messages/s", "p50 ms", "p95 ms", "p99 ms"]
    header += ["killed", "double-booked", "lost", "dead letters", "consumer MB", "server MB"]
    rows = [
        [tuple_text(value) if isinstance(value, tuple) else value for value in asdict(one).values()] for one in figures
    ]
    return table(header, rows)


def tuple_text(values: Sequence[float]) -> str:
    """Numbers with arrows between them."""
    return " → ".join(f"{value:g}" for value in values)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="before the 30 %% that are sent twice")
    parser.add_argument("--practices", type=int, default=1_000)
    parser.add_argument("--demand", type=Path, help="a file of appointments by practice; without it, made up")
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two killed consumers; 0: none")
    parser.add_argument("--handlers", default=",".join(HANDLERS))
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    names = [name for name in HANDLERS if any(wanted in name for wanted in options.handlers.split(","))]
    figures = run(options.requests, names, options.demand, options.practices, options.kill_every)
    print(json.dumps([asdict(one) for one in figures]) if options.json else tables(figures))


if __name__ == "__main__":
    main()
