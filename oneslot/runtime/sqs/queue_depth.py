"""The depth of a queue: how many messages it holds, by their state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Numbers of messages that wait to be received, are in flight (received and hidden), or are delayed.

    SQS's numbers are approximate, and settle about a minute after the last message moved.
    """

    waiting: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """The number of messages in any state."""
        return self.waiting + self.in_flight + self.delayed

    @property
    def empty(self) -> bool:
        """Return whether the queue holds no message."""
        return self.total == 0


def queue_depth(client: SQSClient, queue_url: str) -> QueueDepth:
    """Return the depth that SQS reports."""
    attributes = client.get_queue_attributes(
        QueueUrl=queue_url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ],
    )["Attributes"]
    return QueueDepth(
        waiting=int(attributes["ApproximateNumberOfMessages"]),
        in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        delayed=int(attributes["ApproximateNumberOfMessagesDelayed"]),
    )
