"""The stand-in as a child process, its control, and clients for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import boto3
from botocore.config import Config

from lab.benchmarks.harness.batches import CONCURRENCY, SLOTS_A_WEEK, week
from oneslot.runtime.lambda_consumer import client_configuration
from oneslot.runtime.values import to_attributes

_SESSION: Any = boto3.Session("123456789012", "none", region_name="eu-west-2")


class StandIn:
    """The control of a running stand-in, and clients for it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def control(self, operation: str, **request: Any) -> dict[str, Any]:
        """Call a control operation: `Reset`, `Seed`, `Time`, `Rows` or `Bill`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/", json.dumps(request), {"X-Amz-Target": f"Control.{operation}"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def client(self, service: str = "dynamodb", connections: int = CONCURRENCY) -> Any:
        """Return boto3's client as the handler configures it, with a longer timeout: many processes share the machine."""
        config = client_configuration(connections).merge(Config(read_timeout=10))
        return _SESSION.client(service, endpoint_url=f"http://127.0.0.1:{self.port}", config=config)

    def reset(self, service_ms: float, practices: Sequence[str], slots: int = SLOTS_A_WEEK) -> None:
        """Empty the tables, add free slots at these practices, and set the time of each later call."""
        self.control("Reset")
        for start in range(0, len(practices), 100):
            items = [
                to_attributes(slot) for practice in practices[start : start + 100] for slot in week(practice, slots)
            ]
            self.control("Seed", table="slots", items=items)
        self.control("Time", service_ms=service_ms)
        self.control("Bill")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table, in DynamoDB's JSON."""
        rows: list[dict[str, Any]] = self.control("Rows", table=table)["rows"]
        return rows


@contextlib.contextmanager
def stand_in() -> Iterator[StandIn]:
    """Run the stand-in in a process that ends with the block."""
    command = [sys.executable, "-m", "lab.benchmarks.standin", "--child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError(f"The stand-in failed to start: exit status {process.wait()}")
            yield StandIn(int(line))
        finally:
            process.kill()
