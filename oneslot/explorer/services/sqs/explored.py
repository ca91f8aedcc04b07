"""SQS for the explorer, which itself chooses the deliveries: queues exist by use, and collect what is sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from oneslot.dynamodb_in_memory.answers import answer
from oneslot.explorer.services.deduplication import State, once
from oneslot.explorer.services.sqs.requests import Answer, perform_batch, queue_url, refuse_others, refuse_value
from oneslot.explorer.services.sqs.sending import (
    MAXIMUM_BYTES,
    check_batch_size,
    check_content,
    deduplication_id,
    digest,
)

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

SEQUENCE_NUMBER = "18870000000000000256"
"""A FIFO queue's number of a message, always the same: a handler that reads it explores one path only."""

_RECEIPT = re.compile(r"receipt-(sqs-[0-9a-f-]+)-of-.*")


class ExploredSQS:
    """SQS over these messages, which it adds to.

    `state` holds deduplication ids and deletions. A FIFO queue has the name of one, and ContentBasedDeduplication.
    """

    def __init__(
        self,
        sent: Sent,
        *,
        now_ms: int = 0,
        state: State | None = None,
        depends_on_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._now_ms = now_ms
        self._depends_on_time = depends_on_time
        self.sent = sent
        self._state: State = {} if state is None else state

    def send_message(self, **request: Any) -> Answer:
        """Send a message."""
        url = request.pop("QueueUrl")
        return answer(self._send(url, request))

    def send_message_batch(self, **request: Any) -> Answer:
        """Send up to ten messages of one mebibyte together, in their order."""
        check_batch_size(request["Entries"])

        def send(entry: Mapping[str, Any]) -> Answer:
            return self._send(request["QueueUrl"], {name: value for name, value in entry.items() if name != "Id"})

        return perform_batch("SendMessageBatch", request, send)

    def get_queue_url(self, **request: Any) -> Answer:
        """Return the URL of the queue with this name."""
        refuse_others(request, frozenset({"QueueName", "QueueOwnerAWSAccountId"}))
        return answer({"QueueUrl": queue_url(request["QueueName"])})

    def change_message_visibility(self, **request: Any) -> Answer:
        """Accept and ignore it, because the explorer may deliver a copy at any time."""
        refuse_others(request, frozenset({"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}))
        return answer({})

    def change_message_visibility_batch(self, **request: Any) -> Answer:
        """Accept and ignore them, as above."""
        return perform_batch("ChangeMessageVisibilityBatch", request, lambda entry: {})

    def delete_message(self, **request: Any) -> Answer:
        """Delete a delivered message: it need not be delivered again."""
        self._delete(request["ReceiptHandle"])
        return answer({})

    def delete_message_batch(self, **request: Any) -> Answer:
        """Delete up to ten messages."""

        def delete(entry: Mapping[str, Any]) -> Answer:
            self._delete(entry["ReceiptHandle"])
            return {}

        return perform_batch("DeleteMessageBatch", request, delete)

    def _delete(self, handle: str) -> None:
        found = _RECEIPT.fullmatch(handle)
        if found is None:
            refuse_value("DeleteMessage", "ReceiptHandle", handle, "The input receipt handle is invalid.")
        self._state.setdefault(DELETED, {})[found[1]] = True

    def _send(self, url: str, entry: Mapping[str, Any]) -> Answer:
        check_content(entry, MAXIMUM_BYTES)
        token = deduplication_id(entry, fifo=url.endswith(".fifo"))
        messages = self.sent.setdefault(url, [])

        def send() -> str:
            messages.append(entry)
            return f"sent-{len(messages)}"

        md5 = digest(entry["MessageBody"])
        if token is None:
            return {"MessageId": send(), "MD5OfMessageBody": md5}
        message_id = once(self._state, self._now_ms, url, token, send, depends_on_time=self._depends_on_time)
        return {"MessageId": message_id, "MD5OfMessageBody": md5, "SequenceNumber": SEQUENCE_NUMBER}
