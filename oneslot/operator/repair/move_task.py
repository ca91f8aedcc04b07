"""Redrive by SQS's own move task, which moves every message of the dead-letter queue at a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from oneslot.errors import MoveTaskRefused
from oneslot.runtime.sqs.errors import codes
from oneslot.runtime.stores.expressions import error_code
from oneslot.target import Target

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

# StartMessageMoveTask takes 1 to 500 messages a second (its API reference).
FASTEST = 500
INTERVAL_SECONDS = 5.0
RUNNING = frozenset({"RUNNING", "CANCELLING"})


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move task: its status, and about how many messages it moved of how many."""

    status: str
    moved: int
    to_move: int
    failure: str | None = None

    @property
    def completed(self) -> bool:
        """Return whether it moved everything."""
        return self.status == "COMPLETED"


def start_move(target: Target, rate: float) -> None:
    """Start the task. Raises `OneslotError` if SQS refuses, as while another task of the queue runs."""
    # The destination is named, because SQS does not know the source of messages that the consumer quarantined.
    request = {
        "SourceArn": queue_arn(target.sqs, target.outputs.dead_letter_queue_url),
        "DestinationArn": queue_arn(target.sqs, target.outputs.queue_url),
    }
    try:
        target.sqs.start_message_move_task(**request, MaxNumberOfMessagesPerSecond=max(1, min(FASTEST, int(rate))))
    except ClientError as error:
        if error_code(error) in codes("UnsupportedOperation"):
            raise MoveTaskRefused(
                "SQS did not start a move task; a queue can have one at a time. "
                f"Wait until `{target.command('dlq list')}` shows an empty queue, or move in batches with --batches."
            ) from error
        raise


def follow_move(target: Target, progress: Callable[[int], None]) -> Moved:
    """Wait until the newest task has ended; return its result. `progress` gets the number of messages moved since."""
    source = queue_arn(target.sqs, target.outputs.dead_letter_queue_url)
    shown = 0
    while True:
        (newest,) = target.sqs.list_message_move_tasks(SourceArn=source, MaxResults=1)["Results"]
        moved = newest.get("ApproximateNumberOfMessagesMoved", 0)
        progress(moved - shown)
        shown = moved
        status = newest.get("Status", "")
        if status not in RUNNING:
            to_move = newest.get("ApproximateNumberOfMessagesToMove", moved)
            return Moved(status, moved, to_move, newest.get("FailureReason"))
        target.surroundings.sleep(INTERVAL_SECONDS)


def queue_arn(client: SQSClient, queue_url: str) -> str:
    """Return the ARN of a queue."""
    return client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
