"""An in-memory stand-in for SQS, for the dozens of messages of a scenario.

Requests, answers and errors have the shapes of boto3's client. An unknown parameter raises `UnsupportedRequest`.
`tests/lab/simulation/test_sqs.py` compares it with moto by random calls; where moto differs, AWS's documentation decides.
Quotes are from AWS's API reference and developer guide. Not modelled: delays, the limit of messages in flight, encryption,
permissions, fair queues, move tasks, MD5 digests of attributes. A receive never waits: the caller polls, with
`next_visible_ms`.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from lab.simulation.sqs.fifo import FifoQueue
from lab.simulation.sqs.queue import Message, Queue
from oneslot.dynamodb_in_memory.answers import answer, refuse, refuse_unknown
from oneslot.explorer.services.account import Answer
from oneslot.explorer.services.sqs import (
    MAXIMUM_ENTRIES,
    PREFIX,
    check_batch_size,
    check_content,
    deduplication_id,
    digest,
    perform_batch,
    queue_url,
    refuse_value,
)

QUEUE_ATTRIBUTES = (
    "VisibilityTimeout MessageRetentionPeriod MaximumMessageSize RedrivePolicy FifoQueue ContentBasedDeduplication"
)
"""The attributes that a queue is created with."""

_RECEIVED = (
    "QueueUrl MessageSystemAttributeNames MessageAttributeNames MaxNumberOfMessages VisibilityTimeout WaitTimeSeconds "
    "ReceiveRequestAttemptId"
)

MAXIMUM_TIMEOUT_SECONDS = 43_200
"""A visibility timeout's limit (API reference, ChangeMessageVisibility)."""


class SQSService:
    """The stand-in. `now_ms` is its clock (epoch ms); `random` makes the choices that SQS leaves open.

    Attributes:
        missing: the probability that a short poll of a standard queue misses a message, because "a weighted random set of
            machines is sampled"; a long poll asks all.
    """

    def __init__(self, now_ms: Callable[[], int], random: Random) -> None:
        self._now_ms = now_ms
        self._random = random
        self._queues: dict[str, Queue] = {}
        self._sent = 0
        self.missing = 0.0

    # Queues

    def create_queue(self, **request: Any) -> Answer:
        """Create a queue. Its dead-letter queue must exist."""
        refuse_unknown("CreateQueue", request, "QueueName Attributes")
        name, attributes = request["QueueName"], dict(request.get("Attributes", {}))
        refuse_unknown("CreateQueue", attributes, QUEUE_ATTRIBUTES)
        kind = FifoQueue if attributes.get("FifoQueue") == "true" else Queue
        queue = kind(name, attributes, self._random, {each.arn: each for each in self._queues.values()})
        self._queues[queue.url] = queue
        return answer({"QueueUrl": queue.url})

    def get_queue_url(self, **request: Any) -> Answer:
        """Return the URL of a queue by its name."""
        refuse_unknown("GetQueueUrl", request, "QueueName QueueOwnerAWSAccountId")
        queue = self._queue("GetQueueUrl", queue_url(request["QueueName"]), self._now_ms())
        return answer({"QueueUrl": queue.url})

    def get_queue_attributes(self, **request: Any) -> Answer:
        """Return the named attributes, with the numbers of messages at this moment."""
        refuse_unknown("GetQueueAttributes", request, "QueueUrl AttributeNames")
        queue = self._queue("GetQueueAttributes", request["QueueUrl"], self._now_ms())
        names, visible = request.get("AttributeNames", ()), len(queue.visible)
        attributes = {
            **queue.attributes,
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(len(queue.messages) - visible),
            "ApproximateNumberOfMessagesDelayed": "0",
        }
        found = {name: value for name, value in attributes.items() if name in names}
        return answer({"Attributes": found} if found else {})

    # Messages

    def send_message(self, **request: Any) -> Answer:
        """Send a message."""
        now = self._now_ms()
        queue = self._queue("SendMessage", request.pop("QueueUrl"), now)
        return answer(self._send(queue, request, now))

    def send_message_batch(self, **request: Any) -> Answer:
        """Send up to ten messages of one mebibyte together, in their order."""
        now, name = self._now_ms(), "SendMessageBatch"
        queue = self._queue(name, request["QueueUrl"], now)

        def send(entry: Mapping[str, Any]) -> Answer:
            return self._send(queue, {name: value for name, value in entry.items() if name != "Id"}, now)

        check_batch_size(request["Entries"])
        return perform_batch(name, request, send)

    def receive_message(self, **request: Any) -> Answer:
        """Return up to ten visible messages, with all attributes or none. The answer of an empty queue has no `Messages`."""
        refuse_unknown("ReceiveMessage", request, _RECEIVED)
        now, name = self._now_ms(), "ReceiveMessage"
        queue = self._queue(name, request["QueueUrl"], now)
        count = request.get("MaxNumberOfMessages", 1)
        wait_seconds = request.get("WaitTimeSeconds", 0)
        if not 1 <= count <= MAXIMUM_ENTRIES:
            refuse_value(name, "MaxNumberOfMessages", count, "Must be between 1 and 10, if provided.")
        hidden_ms = queue.visibility_ms
        if "VisibilityTimeout" in request:
            hidden_ms = _timeout_ms(name, request["VisibilityTimeout"])
        attempt_id = request.get("ReceiveRequestAttemptId")
        if attempt_id is None:
            received = queue.receive(count, hidden_ms, now, 0.0 if wait_seconds else self.missing)
        elif isinstance(queue, FifoQueue):
            received = queue.receive_attempt(attempt_id, count, hidden_ms, now)
        else:
            refuse_value(name, "ReceiveRequestAttemptId", attempt_id, "The queue is not a FIFO queue.")
        if not received:
            return answer({})
        system, own = (request.get(f"Message{kind}AttributeNames") == ["All"] for kind in ("System", ""))
        return answer({"Messages": [each.received(queue.handle(each), system=system, own=own) for each in received]})

    def delete_message_batch(self, **request: Any) -> Answer:
        """Delete up to ten messages; see `Queue.delete`."""
        queue = self._queue("DeleteMessageBatch", request["QueueUrl"], self._now_ms())

        def delete(entry: Mapping[str, Any]) -> Answer:
            queue.delete(entry["ReceiptHandle"])
            return {}

        return perform_batch("DeleteMessageBatch", request, delete)

    def change_message_visibility(self, **request: Any) -> Answer:
        """Hide a message in flight for a new timeout; see `Queue.change_visibility`."""
        refuse_unknown("ChangeMessageVisibility", request, "QueueUrl ReceiptHandle VisibilityTimeout")
        now, name = self._now_ms(), "ChangeMessageVisibility"
        queue = self._queue(name, request["QueueUrl"], now)
        queue.change_visibility(request["ReceiptHandle"], _timeout_ms(name, request["VisibilityTimeout"]), now)
        return answer({})

    def change_message_visibility_batch(self, **request: Any) -> Answer:
        """Change up to ten visibility timeouts; see `Queue.change_visibility`."""
        now, name = self._now_ms(), "ChangeMessageVisibilityBatch"
        queue = self._queue(name, request["QueueUrl"], now)

        def change(entry: Mapping[str, Any]) -> Answer:
            queue.change_visibility(entry["ReceiptHandle"], _timeout_ms(name, entry["VisibilityTimeout"]), now)
            return {}

        return perform_batch(name, request, change)

    # What only a simulation can do and see

    def queue(self, queue_url: str) -> Queue:
        """Return a queue as it is now, also for what no client can do: `deliver_again` and `undelete`."""
        return self._queue("ReceiveMessage", queue_url, self._now_ms())

    def messages(self, queue_url: str) -> list[Message]:
        """Return all messages of a queue, visible and hidden, in the order of their arrival. Do not change them."""
        return list(self.queue(queue_url).messages.values())

    def _send(self, queue: Queue, entry: Mapping[str, Any], now: int) -> Answer:
        check_content(entry, queue.maximum_bytes)
        content_based = isinstance(queue, FifoQueue) and queue.content_based
        token = deduplication_id(entry, fifo=isinstance(queue, FifoQueue), content_based=content_based)
        body, group, md5 = entry["MessageBody"], entry.get("MessageGroupId"), digest(entry["MessageBody"])
        if isinstance(queue, FifoQueue):
            before = queue.duplicate_of(str(token))
            if before is not None:
                return _sent(before, md5)
        attributes = entry.get("MessageAttributes", {})
        self._sent += 1
        message_id = f"00000000-0000-4000-8000-{self._sent:012x}"
        message = Message(message_id, body, attributes, md5, now, now, group, token)
        queue.add(message)
        return _sent(message, md5)

    def _queue(self, name: str, url: str, now: int) -> Queue:
        """Return the queue with this URL as it is now; `name` is the operation that a refusal names."""
        queue = self._queues.get(url)
        if queue is None:
            refuse(name, PREFIX + "NonExistentQueue", "The specified queue does not exist.")
        queue.advance(now)
        return queue


def _sent(message: Message, md5: str) -> dict[str, Any]:
    """Return SendMessage's answer; for a duplicate, with the first message's id and this one's digest."""
    sent = {"MessageId": message.message_id, "MD5OfMessageBody": md5}
    return sent if message.sequence_number is None else {**sent, "SequenceNumber": message.sequence_number}


def _timeout_ms(name: str, seconds: int) -> int:
    """Return a visibility timeout in milliseconds, or raise its refusal."""
    if not 0 <= seconds <= MAXIMUM_TIMEOUT_SECONDS:
        refuse_value(name, "VisibilityTimeout", seconds, "VisibilityTimeout must be an integer between 0 and 43200")
    return seconds * 1000
