"""Messages in the queue, and the SQS records by which a delivery brings them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.process import OWN_NAME

PRACTICE = "A81001"
CHANNEL = "Telephone"
SERVICE = "General Consultation Routine"
PATIENTS = ("9990000018", "9990000026", "9990000034")
"""NHS numbers that are never issued (the test range starts with 999)."""


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message in the queue. `message_id` is the request's identity, not SQS's; a malformed one has its body for that."""

    message_id: str
    body: str

    @property
    def sqs_id(self) -> str:
        """SQS's own id of it, the same in all deliveries."""
        return f"sqs-{hashlib.sha256(self.body.encode()).hexdigest()[:8]}"

    def record(self, position: int) -> dict[str, Any]:
        """The record of an SQS event that delivers it, at this position of a batch."""
        return {
            "messageId": self.sqs_id,
            "receiptHandle": f"receipt-{position}-of-{OWN_NAME}",
            "body": self.body,
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1763625600000"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }


def booking(message_id: str, patient: int = 0, **changes: Any) -> SqsMessage:
    """A booking of one of the `PATIENTS`; `changes` replace fields of its body."""
    body: Mapping[str, Any] = {
        "message_id": message_id,
        "type": "book",
        "practice": PRACTICE,
        "nhs_number": PATIENTS[patient],
        "not_before": "2026-11-23T08:00:00Z",
        "not_after": "2026-11-24T08:00:00Z",
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
        **changes,
    }
    return SqsMessage(message_id, json.dumps(body))


def cancellation(message_id: str, appointment_id: str) -> SqsMessage:
    """A cancellation of the appointment that the booking with this id makes."""
    body = {"message_id": message_id, "type": "cancel", "appointment_id": appointment_id}
    return SqsMessage(message_id, json.dumps(body))
