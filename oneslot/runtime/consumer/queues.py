"""The consumer's own calls to SQS: defer a busy or failed message, or quarantine an unprocessable one with its reason."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import IDENTITY_ATTRIBUTE, MAXIMUM_ATTRIBUTES, Record, message_attributes
from oneslot.runtime.sqs.batches import text_attributes
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, QUARANTINE_ATTRIBUTES, RETRIES_SPEND_RECEIVES, Deferral, is_fifo
from oneslot.runtime.surroundings import Surroundings

# SQS hides a message for at most 12 hours after its receive. The receive may lie back as long as a Lambda can run: 15 minutes.
LONGEST_DEFERRAL_SECONDS = 43_200 - 900


class SQS(Protocol):
    """The calls of an SQS client that the consumer makes. As properties, they fit boto3's client and its typed stubs."""

    @property
    def change_message_visibility(self) -> Callable[..., Any]:
        """Set how long this receive of the message stays hidden."""

    @property
    def send_message(self) -> Callable[..., Any]:
        """Send one message."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The consumer's queue and its dead-letter queue.

    Raises:
        ValueError: for a FIFO queue with a retry delay.
    """

    client: SQS
    queue_url: str
    dead_letter_queue_url: str
    jitter: Callable[[], float] = field(default_factory=lambda: Surroundings().jitter)
    deferral: Deferral = field(default_factory=Deferral)

    def __post_init__(self) -> None:
        if self.deferral.longest_retry_delay_seconds and is_fifo(self.queue_url):
            raise ValueError(f"ONESLOT_LONGEST_RETRY_DELAY_SECONDS must be 0: {RETRIES_SPEND_RECEIVES}")

    def defer(self, record: Record[Any], lease_ms: int, own_lease_ms: int = 0) -> int:
        """Hide a busy message whose lease has `lease_ms` left; return the seconds.

        `own_lease_ms` is the lease of this consumer's own claims, which another consumer's may equal.
        """
        longest = max(self.deferral.longest_lease_seconds, own_lease_ms / 1000)
        deferral = replace(self.deferral, longest_lease_seconds=longest)
        return self._hide(record, deferral.after_busy(record.receive_count, lease_ms, self.jitter()))

    def delay(self, record: Record[Any]) -> int | None:
        """Hide a failed message for its retry delay; return the seconds. None leaves it to its visibility timeout."""
        seconds = self.deferral.after_failure(record.receive_count, self.jitter())
        return None if seconds is None else self._hide(record, seconds)

    def _hide(self, record: Record[Any], seconds: int) -> int:
        seconds = min(LONGEST_DEFERRAL_SECONDS, seconds)
        self.client.change_message_visibility(
            QueueUrl=self.queue_url, ReceiptHandle=record.receipt.handle, VisibilityTimeout=seconds
        )
        return seconds

    def quarantine(self, record: Record[Any], problem: Unprocessable) -> None:
        """Send the message, body and attributes untouched, to the dead-letter queue with its reason.

        SQS takes ten attributes: of more than seven, the last ones make room for the reason, but never the identity.

        Raises:
            ClientError: if the send fails; the message then stays in the queue until its receives run out.
        """
        original = [(name, value) for name, value in _attributes(record).items() if name not in QUARANTINE_ATTRIBUTES]
        original.sort(key=lambda attribute: attribute[0] != IDENTITY_ATTRIBUTE)
        kept = dict(original[: MAXIMUM_ATTRIBUTES - len(QUARANTINE_ATTRIBUTES)])
        reason = dict(zip(QUARANTINE_ATTRIBUTES, (problem.reason, problem.detail, record.sent_as), strict=True))
        # The message stays in its group, which a fair queue has as well. A FIFO queue drops a second quarantine of it.
        group = record.raw["attributes"].get(GROUP_ATTRIBUTE)
        order = {} if group is None else {GROUP_ATTRIBUTE: group}
        if is_fifo(self.dead_letter_queue_url):
            order["MessageDeduplicationId"] = record.receipt.sqs_message_id
        self.client.send_message(
            **order,
            QueueUrl=self.dead_letter_queue_url,
            MessageBody=record.body,
            MessageAttributes={**kept, **text_attributes(reason)["MessageAttributes"]},
        )


def _attributes(record: Record[Any]) -> Mapping[str, dict[str, Any]]:
    """Translate Lambda's message attributes to SQS's. Lambda passes bytes as base64 text; the SDK takes bytes."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in message_attributes(record.raw).items():
        text, base64_text = value.get("stringValue"), value.get("binaryValue")
        if text is not None:
            attributes[name] = {"DataType": value["dataType"], "StringValue": text}
        elif base64_text is not None:
            attributes[name] = {"DataType": value["dataType"], "BinaryValue": base64.b64decode(base64_text)}
    return attributes
