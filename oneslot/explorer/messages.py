"""Messages in the queue, and the SQS records that deliver them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.process import OWN_NAME


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message in the queue. `message_id` is the request's id, not SQS's; a malformed message has its body as the id."""

    message_id: str
    body: str

    @property
    def sqs_id(self) -> str:
        """SQS's own id, the same in all deliveries."""
        return f"sqs-{hashlib.sha256(self.body.encode()).hexdigest()[:8]}"

    def record(self, position: int) -> dict[str, Any]:
        """Return the record that delivers the message at this position of a batch."""
        return {
            "messageId": self.sqs_id,
            "receiptHandle": f"receipt-{position}-of-{OWN_NAME}",
            "body": self.body,
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1763625600000"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }
