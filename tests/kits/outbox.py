"""A ledger on moto, targets of each kind, and a relay whose calls are noted."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oneslot.runtime.effects import Effects, Send
from oneslot.runtime.protocol import Claim, Committed
from oneslot.runtime.sends.relay import Relay
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import from_attributes
from tests.kits.consumer import Clock, create_table, moto_client, surroundings

RETENTION_SECONDS = 100


@dataclass
class Outbox:
    """A ledger on moto, its targets, and a relay whose calls are noted."""

    clock: Clock = field(default_factory=Clock)
    calls: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str], Any] = lambda _: None
    retention_seconds: int | None = RETENTION_SECONDS
    sender: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clients = {name: moto_client(name) for name in ("dynamodb", "sqs", "sns", "events")}
        create_table(self.clients["dynamodb"], "ledger", "message_id")
        sqs = self.clients["sqs"]
        self.mails = sqs.create_queue(QueueName="mails")["QueueUrl"]
        self.orders = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        self.targets = {
            "mails": self.mails,
            "orders": self.orders,
            "news": self.clients["sns"].create_topic(Name="news")["TopicArn"],
            "lines": self.clients["sns"].create_topic(Name="lines.fifo", Attributes={"FifoTopic": "true"})["TopicArn"],
            "order_taken": self.clients["events"].create_event_bus(Name="shop")["EventBusArn"],
        }

    @property
    def ledger(self) -> DynamoDBLedger:
        return DynamoDBLedger(
            self.clients["dynamodb"],
            "ledger",
            retention_seconds=self.retention_seconds,
            sends=self.targets,
            sender=self.sender,
            surroundings=surroundings(self.clock),
        )

    @property
    def relay(self) -> Relay:
        return Relay(
            self.ledger,
            lambda service, **region: Noted(self, service, region),
            log=lambda **fields: self.lines.append(fields),
        )

    def relayed(self, *records: dict[str, Any], context: Any = None) -> list[str]:
        """Let a relay consume these records; return the ids of those that failed."""
        answer = self.relay.consume({"Records": records}, context)
        return [each["itemIdentifier"].removeprefix("number of ") for each in answer["batchItemFailures"]]

    def sent(self, operation: str = "send_message_batch") -> list[list[Any]]:
        """Return the bodies of each call of a queue's or a topic's batch."""
        requests = [json.loads(request) for name, request in self.calls if name == operation]
        return [
            [json.loads(each.get("MessageBody", each.get("Message"))) for each in request.get("Entries", ())]
            for request in requests
        ]

    def commit(self, message_id: str, *sends: Send) -> dict[str, Any]:
        """Commit, and return the record of the ledger's stream."""
        claim = self.ledger.claim(message_id, "h", self.clock() + 30_000)
        assert isinstance(claim, Claim)
        assert self.ledger.commit(claim, Effects({}, sends=sends)) == Committed({})
        return {"dynamodb": {"NewImage": self.item(message_id), "SequenceNumber": f"number of {message_id}"}}

    def item(self, message_id: str) -> dict[str, Any]:
        answer = self.clients["dynamodb"].get_item(TableName="ledger", Key={"message_id": {"S": message_id}})
        return dict(answer.get("Item", {}))

    def row(self, message_id: str) -> dict[str, Any]:
        return from_attributes(self.item(message_id))

    def received(self, url: str) -> list[dict[str, Any]]:
        answer = self.clients["sqs"].receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))


@dataclass
class Noted:
    """A service's client. What `before` returns is answered in its place."""

    outbox: Outbox
    service: str
    region: dict[str, str]

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.outbox.calls.append((operation, json.dumps(request)))
            answer = self.outbox.before(operation)
            client = moto_client(self.service, **self.region) if self.region else self.outbox.clients[self.service]
            return getattr(client, operation)(**request) if answer is None else answer

        return call
