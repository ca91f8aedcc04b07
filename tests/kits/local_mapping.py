"""The queue of a mapping on the embedded AWS, its numbers and processes, and waiting for them."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.poller import Statistics


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

    def send(self, *bodies: str) -> list[str]:
        """Send messages; return their MessageIds."""
        sqs = self.connection.sqs()
        sent = [sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)["MessageId"] for body in bodies]
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


def descendants(pid: int) -> set[int]:
    """Return the process ids below one process."""
    children: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children |= {int(child) for child in (task / "children").read_text().split()}
    return children.union(*(descendants(child) for child in children)) if children else children
