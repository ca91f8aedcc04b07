"""SQS for the explorer, which itself chooses the deliveries: queues exist by use, and collect what is sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from oneslot.explorer.services.answers import answer
from oneslot.explorer.services.deduplication import State, once
from oneslot.explorer.services.sqs.fifo import FifoQueue
from oneslot.explorer.services.sqs.queue import Queue
from oneslot.explorer.services.sqs.requests import refuse_others, refuse_value
from oneslot.explorer.services.sqs.service import Answer, SQSService

Sent = dict[str, list[Mapping[str, Any]]]
"""The parameters of sent messages, by queue URL."""

DELETED = "sqs/deleted"
"""The container of the SQS ids of messages that the code under test has deleted."""

OPERATIONS = (
    "send_message",
    "send_message_batch",
    "delete_message",
    "delete_message_batch",
    "change_message_visibility",
    "change_message_visibility_batch",
    "get_queue_url",
)
"""What the explorer has of SQS. Receiving is its own part."""

_RECEIPT = re.compile(r"receipt-(sqs-[0-9a-f-]+)-of-.*")


class ExploredSQS(SQSService):
    """The service over these messages, which it adds to. Without `checked` it accepts what SQS refuses to hold.

    `state` holds deduplication ids and deletions. A FIFO queue has the name of one, and ContentBasedDeduplication.
    """

    def __init__(
        self,
        sent: Sent,
        *,
        checked: bool = True,
        now_ms: int = 0,
        state: State | None = None,
        depends_on_time: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(lambda: now_ms, Random(0))
        self._depends_on_time = depends_on_time
        self.sent = sent
        self._state: State = {} if state is None else state
        self._checked = checked

    def get_queue_url(self, **request: Any) -> Answer:
        """Return the URL of the queue with this name."""
        refuse_others(request, frozenset({"QueueName", "QueueOwnerAWSAccountId"}))
        return answer({"QueueUrl": Queue(request["QueueName"], {}, Random(0)).url})

    def change_message_visibility(self, **request: Any) -> Answer:
        """Accept and ignore it, because the explorer may deliver a copy at any time."""
        refuse_others(request, frozenset({"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}))
        return answer({})

    def change_message_visibility_batch(self, **request: Any) -> Answer:
        """Accept and ignore them, as above."""
        return self._batch("ChangeMessageVisibilityBatch", request, lambda entry: {})

    def delete_message(self, **request: Any) -> Answer:
        """Delete a delivered message: it need not be delivered again."""
        self._delete(request["ReceiptHandle"])
        return answer({})

    def delete_message_batch(self, **request: Any) -> Answer:
        """Delete up to ten messages."""

        def delete(entry: Mapping[str, Any]) -> Answer:
            self._delete(entry["ReceiptHandle"])
            return {}

        return self._batch("DeleteMessageBatch", request, delete)

    def _delete(self, handle: str) -> None:
        found = _RECEIPT.fullmatch(handle)
        if found is None:
            refuse_value("DeleteMessage", "ReceiptHandle", handle, "The input receipt handle is invalid.")
        self._state.setdefault(DELETED, {})[found[1]] = True

    def _send(self, queue: Queue, entry: Mapping[str, Any], now: int) -> dict[str, Any]:
        result, messages = super()._send(queue, entry, now), self.sent.setdefault(queue.name, [])

        def send() -> str:
            messages.append(entry)
            return f"sent-{len(messages)}"

        if not isinstance(queue, FifoQueue):
            return {**result, "MessageId": send()}
        token = entry.get("MessageDeduplicationId") or hashlib.sha256(entry["MessageBody"].encode()).hexdigest()
        return {
            **result,
            "MessageId": once(self._state, now, queue.name, token, send, depends_on_time=self._depends_on_time),
        }

    def _queue(self, name: str, url: str, now: int) -> Queue:
        if url.endswith(".fifo"):
            return FifoQueue(url, {"FifoQueue": "true", "ContentBasedDeduplication": "true"}, Random(0))
        return Queue(url, {}, Random(0))

    def _check(self, queue: Queue, entry: Mapping[str, Any]) -> None:
        if self._checked:
            super()._check(queue, entry)
