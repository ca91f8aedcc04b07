"""SQS's move task, which returns dead letters to a queue at a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.simulation.sqs.message import Message
from lab.simulation.sqs.queue import Queue

FASTEST = 500
"""The largest rate, messages a second (API reference, StartMessageMoveTask), and here the rate that SQS chooses."""


@dataclass(slots=True)
class MoveTask:
    """A task of one dead-letter queue. It moves by time, whenever the service is called.

    Attributes:
        to_move: the messages to move, counted when it started.
        deliver: adds a message to the queue with this ARN, at a time in epoch ms.
    """

    handle: str
    source: Queue
    destination_arn: str | None
    rate: int | None
    started_ms: int
    to_move: int
    deliver: Callable[[str, Message, int], None]
    moved: int = 0
    status: str = "RUNNING"
    failure: str | None = None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status == "RUNNING"

    @property
    def next_ms(self) -> int:
        """When it moves the next message."""
        return self.started_ms + (self.moved + 1) * 1000 // (self.rate or FASTEST)

    def advance(self, now: int) -> None:
        """Move what is due, the oldest first. Messages without a source fail a task without a destination."""
        while self.running and self.next_ms <= now:
            message = self.source.first() if self.moved < self.to_move else None
            if message is None:
                self.status = "COMPLETED"
                return
            target = self.destination_arn or message.source_arn
            if target is None:
                self.status, self.failure = "FAILED", "CouldNotDetermineMessageSource"
                return
            self.source.remove(message)
            self.deliver(target, message, self.next_ms)
            self.moved += 1

    def result(self) -> dict[str, Any]:
        """Return its entry in ListMessageMoveTasks' answer."""
        entry: dict[str, Any] = {
            "Status": self.status,
            "SourceArn": self.source.arn,
            "ApproximateNumberOfMessagesMoved": self.moved,
            "ApproximateNumberOfMessagesToMove": self.to_move,
            "StartedTimestamp": self.started_ms,
        }
        optional = {
            "TaskHandle": self.handle if self.running else None,
            "DestinationArn": self.destination_arn,
            "MaxNumberOfMessagesPerSecond": self.rate,
            "FailureReason": self.failure,
        }
        return {**entry, **{name: value for name, value in optional.items() if value is not None}}
