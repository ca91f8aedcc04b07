"""The SQS clients under one contract, the queues that its tests use, and where another client differs from AWS."""

from __future__ import annotations

import json
from typing import Any

from tests.oneslot.explorer.port_clients import EMBEDDED, MOTO

DIVERGENCES: dict[str, dict[str, str]] = {
    "test_deletion_succeeds_when_repeated": {EMBEDDED: "answers ReceiptHandleIsInvalid"},
    "test_deletion_succeeds_when_repeated_on_fifo": {EMBEDDED: "answers ReceiptHandleIsInvalid"},
    "test_visibility_is_refused_when_deleted": {
        MOTO: "answers ReceiptHandleIsInvalid",
        EMBEDDED: "answers ReceiptHandleIsInvalid",
    },
    "test_visibility_is_refused_when_not_in_flight": {
        MOTO: "hides a visible message",
        EMBEDDED: "hides a visible message",
    },
    "test_visibility_is_refused_beyond_twelve_hours": {EMBEDDED: "has no limit"},
    "test_redrive_policy_moves_a_message_with_its_counts": {MOTO: "sets no DeadLetterQueueSourceArn"},
    "test_batch_answers_each_entry": {MOTO: "accepts control characters"},
    "test_message_is_refused[control]": {MOTO: "accepts control characters"},
    "test_message_is_refused[empty]": {MOTO: "accepts an empty body"},
    "test_message_is_refused[attributes]": {
        MOTO: "accepts more than ten attributes",
        EMBEDDED: "accepts more than ten attributes",
    },
    "test_message_is_refused[blank]": {MOTO: "accepts an empty value", EMBEDDED: "accepts an empty value"},
    "test_unknown_queue_attribute_is_refused": {EMBEDDED: "ignores the name"},
    "test_sequence_numbers_increase_in_a_group": {MOTO: "draws the numbers at random"},
    "test_second_send_is_accepted_and_dropped": {MOTO: "answers a new MessageId, which no message has"},
    "test_attempt_returns_the_same_when_repeated": {
        MOTO: "ignores ReceiveRequestAttemptId",
        EMBEDDED: "ignores ReceiveRequestAttemptId",
    },
    "test_expired_receipt_is_refused[False]": {
        MOTO: "accepts any receipt of a message",
        EMBEDDED: "accepts the newest receipt of a visible message",
    },
    "test_expired_receipt_is_refused[True]": {
        MOTO: "accepts any receipt of a message",
        EMBEDDED: "answers ReceiptHandleIsInvalid",
    },
    "test_dead_letter_has_its_id_as_token": {MOTO: "keeps the token", EMBEDDED: "keeps the token"},
}
"""How a client differs where AWS's documentation decides, by test and client. Each entry must fail its test."""


class Queues:
    """A standard and a FIFO queue, each with a dead-letter queue after two receives, in one client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.dead = self._create("dead")
        self.url = self._create("requests", dead=self.dead)
        self.fifo_dead = self._create("dead.fifo")
        self.fifo = self._create("requests.fifo", dead=self.fifo_dead, ContentBasedDeduplication="true")

    def _create(self, name: str, *, dead: str | None = None, **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        if dead is not None:
            policy = {"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": 2}
            attributes["RedrivePolicy"] = json.dumps(policy)
        return str(self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def arn(self, url: str) -> str:
        """Return the ARN of a queue."""
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def send(self, *bodies: str, url: str = "", **more: Any) -> list[str]:
        """Send messages; return their ids."""
        sent = [self.client.send_message(QueueUrl=url or self.url, MessageBody=body, **more) for body in bodies]
        return [answer["MessageId"] for answer in sent]

    def receive(self, count: int = 10, url: str = "", **more: Any) -> list[dict[str, Any]]:
        """Receive up to `count` messages, with all attributes."""
        names: dict[str, Any] = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        answer = self.client.receive_message(QueueUrl=url or self.url, MaxNumberOfMessages=count, **{**names, **more})
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def bodies(self, count: int = 10, url: str = "", **more: Any) -> list[str]:
        """Receive, and return the bodies."""
        return [message["Body"] for message in self.receive(count, url, **more)]

    def show(self, message: dict[str, Any], url: str = "") -> None:
        """Make a received message visible."""
        handle = message["ReceiptHandle"]
        self.client.change_message_visibility(QueueUrl=url or self.url, ReceiptHandle=handle, VisibilityTimeout=0)

    def delete(self, message: dict[str, Any], url: str = "") -> None:
        """Delete a received message."""
        self.client.delete_message(QueueUrl=url or self.url, ReceiptHandle=message["ReceiptHandle"])
