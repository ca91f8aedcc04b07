"""An in-memory stand-in for the two SQS calls of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.explorer.services.answers import UnsupportedRequest


class InMemorySQS:
    """Messages by queue URL, in sending order."""

    def __init__(self, queues: dict[str, list[Mapping[str, Any]]]) -> None:
        self.queues = queues

    def send_message(self, **request: Any) -> Mapping[str, Any]:
        """Keep a message as it was sent."""
        if set(request) - {"QueueUrl", "MessageBody", "MessageAttributes"}:
            raise UnsupportedRequest(f"send_message {sorted(request)}")
        message = {name: value for name, value in request.items() if name != "QueueUrl"}
        self.queues.setdefault(request["QueueUrl"], []).append(message)
        return {
            "MessageId": f"sent-{len(self.queues[request['QueueUrl']])}",
            "ResponseMetadata": {"HTTPStatusCode": 200},
        }

    def change_message_visibility(self, **request: Any) -> Mapping[str, Any]:
        """Accept and ignore it, because the explorer may deliver a copy at any time."""
        if set(request) != {"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}:
            raise UnsupportedRequest(f"change_message_visibility {sorted(request)}")
        return {"ResponseMetadata": {"HTTPStatusCode": 200}}
