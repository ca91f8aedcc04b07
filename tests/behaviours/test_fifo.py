"""The FIFO stack on the embedded AWS: order under killed processes and duplicates, and the commands."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest

from oneslot.local.aws.cloud_assembly import SynthesisedStack, read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.synthesis import synthesise
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.operator.target import Target
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.values import from_attributes, to_attributes
from tests.behaviours.conftest import Terminal, running_stack
from tests.kits.consumer import booking, slot_item

pytestmark = pytest.mark.embedded_aws

GROUPS, EACH = 4, 6
KILLS = 3


@pytest.fixture(scope="module")
def fifo_stack(tmp_path_factory: pytest.TempPathFactory) -> SynthesisedStack:
    context = {
        "stage": "dev",
        "queue": "fifo",
        "lambda_timeout_seconds": "6",
        "batch_size": "4",
    }
    return read_stack(synthesise(tmp_path_factory.mktemp("fifo"), context=context), "Oneslot-dev")


@pytest.fixture
def poller_and_terminal(
    account: Connection, fifo_stack: SynthesisedStack, tmp_path: Path
) -> Iterator[tuple[EventSourceMapping, Terminal]]:
    with running_stack(account, fifo_stack, tmp_path) as (poller, terminal):
        yield poller, terminal


@pytest.mark.slow
def test_fifo_keeps_a_practices_order_under_kills(
    poller_and_terminal: tuple[EventSourceMapping, Terminal],
) -> None:
    poller, terminal = poller_and_terminal
    target = terminal.target
    assert is_fifo(target.outputs.queue_url)
    practices = [f"A8100{number}" for number in range(GROUPS)]
    for practice in practices:
        for number in range(EACH):
            item = to_attributes(slot_item(number, practice))
            target.dynamodb.put_item(TableName=target.outputs.tables["slots"], Item=item)
    requests = [(f"{practice}-{number}", practice) for number in range(EACH) for practice in practices]
    with killing(poller) as killed:
        for copies in (requests, requests[::2]):
            send_in_order(target, copies)
        terminal.drain()
    answer = target.dynamodb.scan(TableName=target.outputs.tables["appointments"])
    appointments = [from_attributes(item) for item in answer["Items"]]
    assert len(killed) >= KILLS
    assert poller.statistics.function_errors > 0
    assert terminal.json("dlq", "list")["count"] == 0
    assert sorted(row["appointment_id"] for row in appointments) == sorted(name for name, _ in requests)
    assert {row["status"] for row in appointments} == {"booked"}
    for practice in practices:
        ours = [row for row in appointments if row["practice"] == practice]
        in_time = [row["appointment_id"] for row in sorted(ours, key=lambda row: row["created"])]
        assert in_time == [f"{practice}-{number}" for number in range(EACH)]
    assert {"booked", "duplicate"} <= {line["outcome"] for line in deliveries(terminal)}


@contextmanager
def killing(poller: EventSourceMapping) -> Iterator[list[int]]:
    """Kill handler processes at work, several times, during the block."""
    chance, ended, killed = random.Random(7), Event(), list[int]()

    def kill() -> None:
        while not ended.is_set() and not (len(killed) >= KILLS and poller.statistics.function_errors):
            if poller.statistics.in_flight:
                time.sleep(chance.uniform(0.001, 0.02))
                for pid in poller.handler_pids():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
                ended.wait(0.5)
            ended.wait(0.001)

    thread = Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def deliveries(terminal: Terminal) -> list[dict[str, Any]]:
    """Return the delivery log."""
    assert terminal.target.local is not None
    lines = (json.loads(line) for line in Path(terminal.target.local.log_file).read_text().splitlines())
    return [line for line in lines if line.get("message") == "delivery"]


def send_in_order(target: Target, requests: list[tuple[str, str]]) -> None:
    """Send each copy with an id of its own, so that SQS does not drop it as a duplicate within five minutes."""
    for request, practice in requests:
        target.sqs.send_message(
            QueueUrl=target.outputs.queue_url,
            MessageBody=json.dumps(booking(request, practice=practice)),
            MessageGroupId=practice,
            MessageDeduplicationId=uuid4().hex,
        )
