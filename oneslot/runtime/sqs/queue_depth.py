"""How much a queue holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Messages `waiting` to be received, `in_flight` (received, neither deleted nor back), and `delayed`.

    AWS calls these numbers approximate: they settle about a minute after the last message moved.
    """

    waiting: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.waiting + self.in_flight + self.delayed

    @property
    def empty(self) -> bool:
        """Whether the queue holds nothing at all."""
        return self.total == 0


def queue_depth(client: SQSClient, queue_url: str) -> QueueDepth:
    """Ask the queue."""
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
