"""An in-memory port of the two calls that a consumer makes to SQS by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.explorer.services.dynamodb import UnsupportedRequest


class InMemorySQS:
    """Messages by queue URL, in the order in which they were sent."""

    def __init__(self, queues: dict[str, list[Mapping[str, Any]]]) -> None:
        self.queues = queues

    def send_message(self, **request: Any) -> Mapping[str, Any]:
        """Send a message; it is kept as it was given."""
        if set(request) - {"QueueUrl", "MessageBody", "MessageAttributes"}:
            raise UnsupportedRequest(f"send_message {sorted(request)}")
        message = {name: value for name, value in request.items() if name != "QueueUrl"}
        self.queues.setdefault(request["QueueUrl"], []).append(message)
        return {
            "MessageId": f"sent-{len(self.queues[request['QueueUrl']])}",
            "ResponseMetadata": {"HTTPStatusCode": 200},
        }

    def change_message_visibility(self, **request: Any) -> Mapping[str, Any]:
        """Accepted and forgotten: here a copy of a message may be delivered at any time."""
        if set(request) != {"QueueUrl", "ReceiptHandle", "VisibilityTimeout"}:
            raise UnsupportedRequest(f"change_message_visibility {sorted(request)}")
        return {"ResponseMetadata": {"HTTPStatusCode": 200}}
