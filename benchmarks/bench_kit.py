"""What the benchmarks share: the stand-in as a child process, slots, events, clients, and a table of figures."""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config

from appointments.free_key import free_key
from appointments.slot_choice import utc_text
from benchmarks.ending import INTERRUPTED
from booking.compose import client_configuration, compose
from booking.configuration import Configuration
from oneslot.runtime.stores.expressions import to_attributes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound="DataclassInstance")

CHANNEL, SERVICE, NHS_NUMBER = "Telephone", "General Consultation Routine", "9990000018"
# Next year's first Monday but one: all slots are in the future for as long as anybody runs this.
FIRST_SLOT = datetime(datetime.now(UTC).year + 1, 1, 11, 8, 0, tzinfo=UTC)
SLOTS_A_WEEK = 500
SESSION: Any = boto3.Session("123456789012", "none", region_name="eu-west-2")
CONCURRENCY = 10
"""Records of a batch that run at once: the stack's setting."""

CONFIGURATION = Configuration(
    ledger_table="ledger",
    slots_table="slots",
    appointments_table="appointments",
    queue_url="http://127.0.0.1/requests",
    dead_letter_queue_url="http://127.0.0.1/requests-dead-letters",
    ledger_retention_seconds=30 * 86_400,
    batch_concurrency=CONCURRENCY,
    candidate_slots=16,
    content_based_deduplication=False,
)

Handler = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]
"""A Lambda function: event, context → the partial batch response."""


@dataclass(frozen=True)
class LambdaContext:
    """What the handlers ask of Lambda's context: 30 seconds."""

    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        return 30_000


class StandIn:
    """The stand-in's control and clients for it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def control(self, operation: str, **request: Any) -> dict[str, Any]:
        """One of `Reset`, `Seed`, `Rows`, `Bill`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/", json.dumps(request), {"X-Amz-Target": f"Control.{operation}"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def client(self, service: str = "dynamodb", connections: int = CONCURRENCY) -> Any:
        """boto3's client, configured as the handler configures it but for the patience: many processes share a machine."""
        config = client_configuration(connections).merge(Config(read_timeout=10))
        return SESSION.client(service, endpoint_url=f"http://127.0.0.1:{self.port}", config=config)

    def reset(self, service_ms: float, practices: Sequence[str], slots: int = SLOTS_A_WEEK) -> None:
        """Empty tables, free slots at these practices, and the time that a call takes from now on."""
        self.control("Reset")
        for start in range(0, len(practices), 100):
            items = [
                to_attributes(slot) for practice in practices[start : start + 100] for slot in week(practice, slots)
            ]
            self.control("Seed", table="slots", items=items)
        self.control("Time", service_ms=service_ms)
        self.control("Bill")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, as the wire has them."""
        rows: list[dict[str, Any]] = self.control("Rows", table=table)["rows"]
        return rows


@contextlib.contextmanager
def stand_in() -> Iterator[StandIn]:
    """The stand-in in a process of its own, ended with the block."""
    command = [sys.executable, "-m", "benchmarks.standin", "--child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError(f"the stand-in ended at its start, with exit status {process.wait()}")
            yield StandIn(int(line))
        finally:
            process.kill()


def week(practice: str, number: int) -> Iterator[dict[str, Any]]:
    """Free slots, ten minutes each, two side by side, from 8 to 18:00 on each day."""
    for position in range(number):
        day, place = divmod(position, 120)
        start = FIRST_SLOT + timedelta(days=day, minutes=10 * (place // 2))
        slot_id = f"{start:%Y%m%dT%H%MZ}-{place % 2 + 1:02}"
        yield free_slot(practice, slot_id, start, CHANNEL)


def free_slot(practice: str, slot_id: str, start: datetime, channel: str) -> dict[str, Any]:
    """A free slot of ten minutes, as the slots table holds it."""
    slot = {
        "practice": practice,
        "slot_id": slot_id,
        "start": utc_text(start),
        "end": utc_text(start + timedelta(minutes=10)),
        "status": "free",
        "delivery_channel": channel,
        "service_type": SERVICE,
    }
    return {**slot, "free_key": free_key(slot)}


def booking(message_id: str, practice: str) -> dict[str, Any]:
    """A request for any of the practice's slots."""
    return {
        "message_id": message_id,
        "type": "book",
        "practice": practice,
        "nhs_number": NHS_NUMBER,
        "not_before": utc_text(FIRST_SLOT),
        "not_after": utc_text(FIRST_SLOT + timedelta(days=28)),
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
    }


def event(bodies: Sequence[Mapping[str, Any]], receive_count: int = 1) -> dict[str, Any]:
    """An SQS event with a record for each body."""
    now = str(time.time_ns() // 1_000_000)
    return {
        "Records": [
            {
                "messageId": f"{body['message_id']}-{position}",
                "receiptHandle": f"receipt-{body['message_id']}-{position}",
                "body": json.dumps(body),
                "attributes": {"ApproximateReceiveCount": str(receive_count), "SentTimestamp": now},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-2:123456789012:requests",
                "awsRegion": "eu-west-2",
            }
            for position, body in enumerate(bodies)
        ]
    }


def ours(
    standin: StandIn,
    *,
    group_commit: bool,
    threads: int = CONCURRENCY,
    client: Any = None,
) -> Handler:
    """Our consumer as the stack puts it together, without its log and metrics (peers have none either)."""
    client = client or standin.client()
    executor = ThreadPoolExecutor(threads) if threads > 1 else None
    return compose(
        replace(CONFIGURATION, group_commit=group_commit),
        client,
        standin.client("sqs"),
        lambda delivery: None,
        executor=executor,
    )


def print_figures(figures: Iterable[F], tables: Callable[[Sequence[F]], str], *, as_lines: bool) -> int:
    """Print figures (dataclasses) as they are measured, a line of JSON each; or all of them as tables at the end.

    An interrupt ends the measuring and not the report: what is there by then is printed. Returns the exit status: 0, or 130
    after an interrupt.
    """
    measured: list[F] = []
    status = 0
    try:
        for figure in figures:
            measured.append(figure)
            if as_lines:
                print(json.dumps(asdict(figure)), flush=True)
    except KeyboardInterrupt:
        status = INTERRUPTED
    if not as_lines:
        print(tables(measured) if measured else "Nothing was measured.")
    return status


def median_ms(runs: Sequence[float]) -> float:
    """Median of seconds, in milliseconds."""
    return statistics.median(runs) * 1000


def quartiles_ms(runs: Sequence[float]) -> tuple[float, float]:
    """First and third quartile of seconds, in milliseconds. Of fewer than two the median, twice."""
    if len(runs) < 2:
        return median_ms(runs), median_ms(runs)
    first, _, third = statistics.quantiles(runs, method="inclusive")
    return first * 1000, third * 1000


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers with one decimal, or none from a hundred up."""
    texts = [[_text(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(header))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:,.2f}" if abs(cell) < 10 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
