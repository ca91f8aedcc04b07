"""Looks into the dead-letter queue without taking anything out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appointments import nhs_number
from exactly_once.delivery import DETAIL_ATTRIBUTE, REASON_ATTRIBUTE, SOURCE_ATTRIBUTE
from exactly_once.effects import Unprocessable
from exactly_once.identity import identify, parse_body

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

# Long enough to read every message once before the first comes back; it ends early, when the look is over.
HIDDEN_SECONDS = 300
WAIT_SECONDS = 1
# SQS asks some of its servers at a time: one empty answer proves nothing.
EMPTY_ANSWERS = 2
# What the queue's redrive policy moved carries no reason of the consumer's.
RECEIVES_EXHAUSTED = "receives_exhausted"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message in the dead-letter queue; its body, which may name a patient, is not kept.

    `message_id` is its identity, None if it has none that is fit to be shown. `source_sqs_message_id` is the id it had in
    the queue it came from, None if the redrive policy moved it: SQS then keeps the id, which is `sqs_message_id`.
    """

    sqs_message_id: str
    message_id: str | None
    reason: str
    detail: str
    source_sqs_message_id: str | None
    sent: int

    @property
    def original_sqs_message_id(self) -> str:
        """The SQS id under which the producer sent it."""
        return self.source_sqs_message_id or self.sqs_message_id


def peek(client: SQSClient, queue_url: str) -> list[DeadLetter]:
    """Read the whole queue and put every message back in sight at once. Each look adds 1 to their receive count."""
    seen: dict[str, DeadLetter] = {}
    with _put_back(client, queue_url) as receipts:
        empty = 0
        while empty < EMPTY_ANSWERS:
            # The first wait for an empty queue is a long poll, which asks all servers.
            answer = client.receive_message(
                QueueUrl=queue_url,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=0 if empty else WAIT_SECONDS,
                VisibilityTimeout=HIDDEN_SECONDS,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["SentTimestamp"],
            )
            fresh = [message for message in answer.get("Messages", []) if message["MessageId"] not in seen]
            empty = 0 if fresh else empty + 1
            for message in answer.get("Messages", []):
                receipts.append(message["ReceiptHandle"])
                seen[message["MessageId"]] = _dead_letter(message)
    return list(seen.values())


@contextmanager
def _put_back(client: SQSClient, queue_url: str) -> Iterator[list[str]]:
    receipts: list[str] = []
    try:
        yield receipts
    finally:
        # One that cannot be put back comes back by itself when its visibility timeout ends.
        for at in range(0, len(receipts), 10):
            client.change_message_visibility_batch(
                QueueUrl=queue_url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                    for number, receipt in enumerate(receipts[at : at + 10])
                ],
            )


def _dead_letter(message: MessageTypeDef) -> DeadLetter:
    attributes = {name: value.get("StringValue", "") for name, value in message.get("MessageAttributes", {}).items()}
    return DeadLetter(
        sqs_message_id=message["MessageId"],
        message_id=_identity(message),
        reason=attributes.get(REASON_ATTRIBUTE, RECEIVES_EXHAUSTED),
        detail=attributes.get(
            DETAIL_ATTRIBUTE, "received as often as the queue's redrive policy allows, without success"
        ),
        source_sqs_message_id=attributes.get(SOURCE_ATTRIBUTE),
        sent=int(message.get("Attributes", {}).get("SentTimestamp", "0")),
    )


def _identity(message: MessageTypeDef) -> str | None:
    spelt_as_lambda_does = {
        name: {"stringValue": value.get("StringValue")} for name, value in message.get("MessageAttributes", {}).items()
    }
    try:
        identity = identify(spelt_as_lambda_does, parse_body(message["Body"]), message["Body"])
    except Unprocessable:
        return None
    return None if nhs_number.contains_one(identity) else identity
