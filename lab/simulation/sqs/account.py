"""The queues of one account, and its move tasks, which progress whenever it is asked for a queue."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NoReturn

from lab.simulation.sqs.fifo import FifoQueue
from lab.simulation.sqs.message import Message
from lab.simulation.sqs.move_task import MoveTask
from lab.simulation.sqs.queue import Queue
from oneslot.dynamodb_in_memory.answers import refuse
from oneslot.explorer.services.sqs.requests import PREFIX, refuse_missing_queue

QUEUE_ATTRIBUTES = frozenset(
    {
        "VisibilityTimeout",
        "MessageRetentionPeriod",
        "MaximumMessageSize",
        "ReceiveMessageWaitTimeSeconds",
        "RedrivePolicy",
        "FifoQueue",
        "ContentBasedDeduplication",
        "DeduplicationScope",
        "FifoThroughputLimit",
    }
)
"""The attributes that a queue is created with."""


class Account:
    """The queues by URL and by ARN. `random` makes the choices that SQS leaves open; `now` is epoch ms."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._by_url: dict[str, Queue] = {}
        self._by_arn: dict[str, Queue] = {}
        self._tasks: list[MoveTask] = []
        self._messages = 0

    def create(self, name: str, attributes: Mapping[str, str]) -> Queue:
        """Create a queue, or return the one with this name if its attributes are the same."""
        fifo = name.endswith(".fifo")
        if fifo != (attributes.get("FifoQueue") == "true"):
            _refuse_creation("InvalidParameterValue", "The name of a FIFO queue ends with .fifo, and no other does.")
        queue = (FifoQueue if fifo else Queue)(name, attributes, self._random)
        before = self._by_url.get(queue.url)
        if before is not None:
            if before.attributes != queue.attributes:
                _refuse_creation("QueueAlreadyExists", "A queue already exists with the same name")
            return before
        if queue.dead_letter_arn is not None:
            queue.dead_letter_queue = self._by_arn.get(queue.dead_letter_arn)
            if queue.dead_letter_queue is None or isinstance(queue.dead_letter_queue, FifoQueue) != fifo:
                _refuse_creation("InvalidParameterValue", "Dead-letter target does not exist or has another type.")
        self._by_url[queue.url] = self._by_arn[queue.arn] = queue
        return queue

    def queue(self, name: str, url: str, now: int) -> Queue:
        """Return the queue with this URL as it is now; `name` is the operation that a refusal names."""
        queue = self._by_url.get(url)
        if queue is None:
            refuse_missing_queue(name)
        if self._tasks:
            self._move(now)
        queue.advance(now)
        return queue

    def named(self, name: str, queue_name: str) -> Queue:
        """Return the queue with this name."""
        found = [queue for queue in self._by_url.values() if queue.name == queue_name]
        if not found:
            refuse_missing_queue(name)
        return found[0]

    def new_id(self) -> str:
        """Return a new message's id."""
        self._messages += 1
        return f"00000000-0000-4000-8000-{self._messages:012x}"

    @property
    def next_move_ms(self) -> int | None:
        """When a task moves the next message; None if none runs."""
        return min((task.next_ms for task in self._tasks if task.running), default=None)

    def start_move(self, name: str, source_arn: str, destination_arn: str | None, rate: int | None, now: int) -> str:
        """Start a task; return its handle."""
        source = self._dead_letter_queue(name, source_arn, now)
        if destination_arn is not None and destination_arn not in self._by_arn:
            refuse(name, "ResourceNotFoundException", "The resource that you specified doesn't exist.")
        if any(task.source is source and task.running for task in self._tasks):
            refuse(name, PREFIX + "UnsupportedOperation", "There is already a task running for this source queue.")
        handle = f"task-{len(self._tasks) + 1}"
        self._tasks.append(MoveTask(handle, source, destination_arn, rate, now, source.visible, self._deliver))
        return handle

    def moves(self, name: str, source_arn: str, now: int) -> list[MoveTask]:
        """Return the tasks of a dead-letter queue, the newest first."""
        source = self._dead_letter_queue(name, source_arn, now)
        return [task for task in reversed(self._tasks) if task.source is source]

    def _dead_letter_queue(self, name: str, arn: str, now: int) -> Queue:
        queue = self._by_arn.get(arn)
        if queue is None:
            refuse(name, "ResourceNotFoundException", "The resource that you specified doesn't exist.")
        if all(each.dead_letter_queue is not queue for each in self._by_url.values()):
            refuse(name, "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
        self._move(now)
        queue.advance(now)
        return queue

    def _move(self, now: int) -> None:
        for task in self._tasks:
            if task.running:
                task.source.advance(now)
                task.advance(now)

    def _deliver(self, arn: str, message: Message, at: int) -> None:
        """Add a redriven message: it is "considered new", with a new id and enqueue time (developer guide, redrive)."""
        body, attributes, token = message.body, message.attributes, message.deduplication_id
        queue = self._by_arn[arn]
        queue.add(Message(self.new_id(), body, attributes, message.md5, at, at, message.group, token))


def _refuse_creation(code: str, message: str) -> NoReturn:
    refuse("CreateQueue", code, message)
