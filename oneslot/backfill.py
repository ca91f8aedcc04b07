"""`oneslot backfill`: what an executor does with the rows of a historical file. It is pickled, so it holds plain values.

Feeding: a row that is sent twice counts once, because its message id is its identity. Seeding: a row that is entered twice
is there once, because the write is conditional. So after a crash the same command is simply run again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import boto3
from botocore.exceptions import ClientError

from exactly_once.identity import payload_hash
from oneslot.sender import BATCH

ATTEMPTS = 8
RESULT_REASON = "handled_before_migration"


@dataclass(frozen=True)
class Access:
    """How an executor reaches AWS: endpoint and credentials of the local stack, or None for the executor's own."""

    endpoint_url: str | None
    region: str | None
    access_key_id: str | None
    secret_access_key: str | None

    def client(self, service: str) -> Any:
        """A client of the executor's own."""
        make: Any = boto3.client
        return make(
            service,
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
        )


@dataclass(frozen=True)
class Feeder:
    """Sends rows to the queue, `rate` messages a second at most."""

    access: Access
    queue_url: str
    rate: float

    def __call__(self, rows: Iterable[Any]) -> None:
        """Send all rows of one partition."""
        client = self.access.client("sqs")
        started, sent = time.monotonic(), 0
        for batch in _batches(rows):
            early = started + sent / self.rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            self._send(client, batch)
            sent += len(batch)
        client.close()

    def _send(self, client: Any, batch: list[Any]) -> None:
        left = {str(number): row.body for number, row in enumerate(batch)}
        for attempt in range(ATTEMPTS):
            entries = [{"Id": key, "MessageBody": body} for key, body in left.items()]
            answer = client.send_message_batch(QueueUrl=self.queue_url, Entries=entries)
            for success in answer.get("Successful", []):
                left.pop(success["Id"], None)
            if not left:
                return
            time.sleep(0.05 * 2**attempt)
        raise RuntimeError(f"the queue did not take {len(left)} messages in {ATTEMPTS} attempts; run the command again")


@dataclass(frozen=True)
class Seeder:
    """Enters rows into the ledger as COMPLETE, so that their redelivery is answered and not processed."""

    access: Access
    table_name: str
    retention_seconds: int
    rate: float

    def __call__(self, rows: Iterable[Any]) -> None:
        """Enter all rows of one partition; a row that the ledger knows already is left as it is."""
        client = self.access.client("dynamodb")
        started = time.monotonic()
        for number, row in enumerate(rows):
            early = started + number / self.rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            self._enter(client, row.message_id, json.loads(row.body))
        client.close()

    def _enter(self, client: Any, message_id: str, body: dict[str, Any]) -> None:
        now = time.time_ns() // 1_000_000
        result = {"outcome": "refused", "appointment_id": message_id, "reason": RESULT_REASON}
        item = {
            "message_id": {"S": message_id},
            "status": {"S": "COMPLETE"},
            "consumption_count": {"N": "1"},
            "updated": {"N": str(now)},
            "claimed_by": {"S": "backfill"},
            "payload_hash": {"S": payload_hash(body)},
            "result": {"S": json.dumps(result)},
            "expires_at": {"N": str(now // 1000 + self.retention_seconds)},
        }
        try:
            client.put_item(
                TableName=self.table_name, Item=item, ConditionExpression="attribute_not_exists(message_id)"
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise


def _batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch
