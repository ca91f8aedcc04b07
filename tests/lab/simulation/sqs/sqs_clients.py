"""The queues of the SQS tests, in one client."""

from __future__ import annotations

import json
from typing import Any


class Queues:
    """A standard and a FIFO queue, each with a dead-letter queue after two receives, in one client."""

    def __init__(self, client: Any, prefix: str = "") -> None:
        self.client = client
        self.prefix = prefix
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
        return str(self.client.create_queue(QueueName=f"{self.prefix}{name}", Attributes=attributes)["QueueUrl"])

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

    def show(self, message: dict[str, Any], url: str = "", seconds: int = 0) -> None:
        """Change a received message's visibility timeout: by default, make it visible."""
        handle = message["ReceiptHandle"]
        self.client.change_message_visibility(QueueUrl=url or self.url, ReceiptHandle=handle, VisibilityTimeout=seconds)

    def delete(self, message: dict[str, Any], url: str = "") -> str:
        """Delete a received message; return the code of a refusal."""
        entry = {"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}
        answer = self.client.delete_message_batch(QueueUrl=url or self.url, Entries=[entry])
        return str(answer["Failed"][0]["Code"]) if answer.get("Failed") else ""
