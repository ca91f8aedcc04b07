"""A small function, its queue and its mapping in an account of the embedded AWS."""

from __future__ import annotations

import io
import json
import textwrap
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.statistics import Statistics

ROLE = "arn:aws:iam::000000000000:role/any"


def zipped(source: str) -> bytes:
    """Return a function's zip with this source as `fake.py`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("fake.py", textwrap.dedent(source))
    return content.getvalue()


def wait_for(condition: Callable[[], bool], *, seconds: float = 120.0, what: str = "the condition") -> None:
    """Wait until the condition is true. Raises `AssertionError` after that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Source:
    """A queue with a function behind it, and the folder where the function may leave notes."""

    connection: Connection
    queue_url: str
    mapping_id: str
    folder: Path

    def poller(self, processes: int = 1) -> EventSourceMapping:
        return EventSourceMapping(self.connection, self.mapping_id, folder=self.folder, processes=processes)

    def send(self, *bodies: str, group: str | None = None) -> list[str]:
        """Send messages, on a FIFO queue in a group; return their MessageIds."""
        sqs = self.connection.sqs()
        order: Any = {"MessageGroupId": group} if group else {}
        sent = [sqs.send_message(QueueUrl=self.queue_url, MessageBody=body, **order)["MessageId"] for body in bodies]
        sqs.close()
        return sent

    def left(self) -> int:
        """Return how many messages are in the queue, visible or not."""
        sqs = self.connection.sqs()
        attributes: Mapping[Any, str] = sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["All"])[
            "Attributes"
        ]
        sqs.close()
        # By one call: between two a message may change from one number to another.
        return sum(int(attributes[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible", "Delayed"))

    def notes(self) -> list[dict[str, Any]]:
        """Return what the function printed, and the reports of its failed invocations, in order."""
        log = self.folder / "consumer.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def until(self, poller: EventSourceMapping, condition: Callable[[Statistics], bool]) -> Statistics:
        """Wait until the poller's numbers satisfy the condition, and return them."""
        wait_for(lambda: condition(poller.statistics))
        return poller.statistics


@dataclass(frozen=True)
class Workshop:
    """Makes sources in one account."""

    connection: Connection
    folder: Path

    def source(
        self,
        handler: str,
        *,
        timeout: int = 30,
        visibility: int = 30,
        reserved: int | None = None,
        environment: dict[str, str] | None = None,
        fifo: bool = False,
        **mapping: Any,
    ) -> Source:
        """Make a queue and a function of this source text (it defines `handle(event, context)`), and map them."""
        sqs, functions = self.connection.sqs(), self.connection.functions()
        order = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
        url = sqs.create_queue(
            QueueName="source.fifo" if fifo else "source",
            Attributes={"VisibilityTimeout": str(visibility), **order},  # type: ignore[dict-item]
        )["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        functions.create_function(
            FunctionName="fake",
            Runtime="python3.13",
            Role=ROLE,
            Handler="fake.handle",
            Code={"ZipFile": zipped(handler)},
            Timeout=timeout,
            MemorySize=256,
            Environment={"Variables": environment or {}},
        )
        if reserved is not None:
            functions.put_function_concurrency(FunctionName="fake", ReservedConcurrentExecutions=reserved)
        mapping_id = functions.create_event_source_mapping(
            FunctionName="fake",
            EventSourceArn=arn,
            Enabled=False,
            FunctionResponseTypes=["ReportBatchItemFailures"],
            **mapping,
        )["UUID"]
        sqs.close()
        functions.close()
        return Source(self.connection, url, mapping_id, self.folder)


def descendants(pid: int) -> set[int]:
    """Return the process ids below one process."""
    children: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children |= {int(child) for child in (task / "children").read_text().split()}
    return children.union(*(descendants(child) for child in children)) if children else children
