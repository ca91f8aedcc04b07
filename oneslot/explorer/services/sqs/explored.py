"""SQS for the explorer, which itself chooses the deliveries: queues exist by use, and collect what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from oneslot.explorer.services.answers import answer
from oneslot.explorer.services.sqs.queue import Queue
from oneslot.explorer.services.sqs.requests import refuse_others
from oneslot.explorer.services.sqs.service import Answer, SQSService

Sent = dict[str, list[Mapping[str, Any]]]
"""The parameters of sent messages, by queue URL."""


class ExploredSQS(SQSService):
    """The service over these messages, which it adds to. Without `checked` it accepts what SQS refuses to hold."""

    def __init__(self, sent: Sent, *, checked: bool = True) -> None:
        super().__init__(lambda: 0, Random(0))
        self.sent = sent
        self._checked = checked

    def send_message(self, **request: Any) -> Answer:
        """Send a message, and keep its parameters."""
        messages = self.sent.setdefault(request["QueueUrl"], [])
        result = {**super().send_message(**request), "MessageId": f"sent-{len(messages) + 1}"}
        messages.append({name: value for name, value in request.items() if name != "QueueUrl"})
        return result

    def change_message_visibility(self, **request: Any) -> Answer:
        """Accept and ignore it, because the explorer may deliver a copy at any time."""
        refuse_others(request, frozenset({"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}))
        return answer({})

    def _queue(self, name: str, url: str, now: int) -> Queue:
        return Queue(url, {}, Random(0))

    def _check(self, queue: Queue, entry: Mapping[str, Any]) -> None:
        if self._checked:
            super()._check(queue, entry)
