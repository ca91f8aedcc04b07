"""A deployed stack for tests with real processes: seed it, send to it, and gather its evidence."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.declared import CONSUMER
from lab.soak.run import shortened
from oneslot.laws.evidence import Evidence
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.operator.evidence.tables import scan
from oneslot.runtime.sqs.dead_letters import peek
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import slot_item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True)
class Stack:
    """A deployed stack of a test's own, with one client for each service."""

    deployment: Deployment
    sqs: SQSClient
    dynamodb: DynamoDBClient

    @property
    def connection(self) -> Connection:
        return self.deployment.connection

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.deployment.outputs

    def seed(self, slots: int) -> None:
        """Put this many free slots of the kit's practice into the table."""
        for number in range(slots):
            self.dynamodb.put_item(TableName=self.outputs["SlotsTableName"], Item=to_attributes(slot_item(number)))

    def send(self, bodies: Iterable[Mapping[str, Any]]) -> set[str]:
        """Send messages, ten at a time; return their message ids."""
        waiting = list(bodies)
        for start in range(0, len(waiting), 10):
            entries: Any = [
                {"Id": str(number), "MessageBody": json.dumps(body)}
                for number, body in enumerate(waiting[start : start + 10])
            ]
            answer = self.sqs.send_message_batch(QueueUrl=self.outputs["QueueUrl"], Entries=entries)
            assert len(answer["Successful"]) == len(entries)
        return {body["message_id"] for body in waiting}

    def depth(self) -> int:
        """Return how many messages the queue holds, visible or not."""
        return queue_depth(self.sqs, self.outputs["QueueUrl"]).total

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of "ledger", "slots" or "appointments"."""
        attributes = LEDGER_ATTRIBUTES if table == "ledger" else CONSUMER.schema.tables[table].attributes
        return list(scan(self.dynamodb, self.outputs[f"{table.title()}TableName"], attributes))

    def statuses(self, table: str) -> Counter[str]:
        return Counter(row["status"] for row in self.rows(table))

    def dead_letters(self) -> list[str]:
        """Return the reasons of the messages in the dead-letter queue."""
        letters = peek(self.sqs, self.outputs["DeadLetterQueueUrl"])
        return [letter.reason for letter in letters]

    def evidence(self, requests: set[str], logs: Iterable[Path] = ()) -> Evidence:
        """Return the evidence of a stack whose queue is drained."""
        quarantined = {letter.message_id for letter in peek(self.sqs, self.outputs["DeadLetterQueueUrl"])}
        return CONSUMER.evidence(
            requests=requests,
            ledger={row["message_id"]: row for row in self.rows("ledger")},
            slots={(row["practice"], row["slot_id"]): row for row in self.rows("slots")},
            appointments={row["appointment_id"]: row for row in self.rows("appointments")},
            quarantined={message_id for message_id in quarantined if message_id},
            deliveries=list(deliveries(logs)),
            waiting=frozenset(),
            now=time.time_ns() // 1_000_000,
        )


@contextmanager
def deployed_shortened(synthesised: SynthesisedStack, account: Connection, timeout_seconds: int) -> Iterator[Stack]:
    """Deploy the real template with another timeout of its consumer."""
    deployment = deploy(shortened(synthesised, timeout_seconds), account)
    with closing(account.sqs()) as sqs, closing(account.dynamodb()) as dynamodb:
        yield Stack(deployment, sqs, dynamodb)


def deliveries(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the deliveries in these logs. A killed handler may have left a partial last line."""
    for log in logs:
        for text in log.read_text().splitlines() if log.exists() else ():
            if text.startswith("{") and text.endswith("}") and '"delivery"' in text:
                line = json.loads(text)
                if line.get("message") == "delivery":
                    yield line
