"""The executors' part of `oneslot backfill`: send the rows of a historical file, or enter them into the ledger.

Safe to repeat after a crash: a row sent twice counts once under its message id, and the ledger's write is conditional. The
classes hold plain values, because Spark pickles them; real surroundings are made in the executor.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import declared, find_declaration, read_declaration
from oneslot.local.aws.connection import Connection
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import identify, parse_body, payload_hash
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.stores.expressions import found_item
from oneslot.runtime.surroundings import Surroundings
from oneslot.sending.messages import Archived, Message, group_of
from oneslot.sending.pacing import Pacer, Pacing
from oneslot.sending.request_file import LARGEST_BODY_BYTES
from oneslot.sending.sender import BatchSender, batches

T = TypeVar("T")

WRITERS = 8
ATTEMPTS = 8
HANDLED_BEFORE = "handled_before_migration"
"""The outcome of a request that is entered as done, for a consumer that declares no result of its own."""
HANDED_OVER, KNOWN, UNFIT = "handed_over", "already_known", "unfit"
UNFINISHED, DIFFERENT = "in_progress", "known_with_other_content"
OUTCOMES = (HANDED_OVER, KNOWN, UNFINISHED, DIFFERENT, UNFIT)
"""The outcome of a row. `unfit`: too large for the queue, or the consumer would quarantine it. The two before: the ledger has
the id in progress, or with other content, so the consumer processes or quarantines a redelivery."""


@dataclass(frozen=True)
class Access:
    """An executor's access to AWS: the local stack's connection, or None for the default endpoint and credentials."""

    local: Connection | None

    def client(self, service: str) -> Any:
        """Return a new client."""
        config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
        if self.local is not None:
            return self.local.client(service, config)
        make: Any = boto3.client
        return make(service, config=config)


@dataclass(frozen=True)
class Feeder:
    """Sends rows to the queue, at most `rate` messages a second, and skips those above SQS's limit."""

    access: Access
    queue_url: str
    rate: float
    surroundings: Surroundings | None = None

    def __call__(self, rows: Iterable[Any]) -> Counter[str]:
        """Send all rows of one partition; return the outcomes. Raises `OneslotError` if the queue does not accept one."""
        surroundings = self.surroundings or Surroundings()
        client = self.access.client("sqs")
        sender = BatchSender(client, self.queue_url, surroundings)
        tally: Counter[str] = Counter({HANDED_OVER: 0})
        cut = (batch for _, batch in batches(_fit(rows, tally), Pacing(self.rate, 0)))
        for batch in _paced(cut, Pacer(self.rate, surroundings)):
            tally[HANDED_OVER] += sum(len(answer.accepted) for answer in sender.send(batch))
        client.close()
        return tally


@dataclass(frozen=True)
class Seeder:
    """Enters rows into the ledger as COMPLETE, at most `rate` a second, so that a redelivery is a duplicate.

    It skips a row that the consumer would quarantine. `consumer` is the file of its declaration; None: the one in the folder.
    """

    access: Access
    table_name: str
    retention_seconds: int | None
    rate: float
    surroundings: Surroundings | None = None
    consumer: Path | None = None

    def __call__(self, rows: Iterable[Any]) -> Counter[str]:
        """Enter all rows of one partition; return the outcomes. An existing row stays as it is."""
        surroundings = self.surroundings or Surroundings()
        client = self.access.client("dynamodb")
        declaration = read_declaration(self.consumer) if self.consumer else declared()
        tally: Counter[str] = Counter({HANDED_OVER: 0})
        with surroundings.threads.executor(WRITERS, "seed") as writers:
            cut = _cut(rows, max(1, min(WRITERS, int(self.rate))))
            for batch in _paced(cut, Pacer(self.rate, surroundings)):
                tally.update(
                    writers.map(lambda row: self._enter(client, declaration, row.body, surroundings.now_ms()), batch)
                )
        client.close()
        return tally

    def _enter(self, client: Any, declaration: Declaration, text: str, now: int) -> str:
        parse, result_before = declaration.tool("parse"), declaration.tool("handled_before")
        try:
            body = parse_body(text)
            message_id = identify({}, body, text)
            if parse:
                parse(message_id, payload_hash(body), body)
        except Unprocessable:
            return UNFIT
        result = result_before(message_id) if result_before else {"outcome": HANDLED_BEFORE}
        item = {
            "message_id": {"S": message_id},
            "status": {"S": COMPLETE},
            "consumption_count": {"N": "1"},
            "updated": {"N": str(now)},
            "claimed_by": {"S": "backfill"},
            "payload_hash": {"S": payload_hash(body)},
            "result": {"S": json.dumps(result)},
        }
        if self.retention_seconds is not None:
            item["expires_at"] = {"N": str(now // 1000 + self.retention_seconds)}
        try:
            client.put_item(
                TableName=self.table_name,
                Item=item,
                ConditionExpression="attribute_not_exists(message_id)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            row = found_item(error)
            if row["payload_hash"] != payload_hash(body):
                return DIFFERENT
            return KNOWN if row["status"] == COMPLETE else UNFINISHED
        return HANDED_OVER


def may_be_shown(message_id: str) -> bool:
    """Return whether an id from a file is valid and holds nothing private."""
    try:
        identity = identify({}, {"message_id": message_id}, "")
    except Unprocessable:
        return False
    declaration = find_declaration()
    return declaration is None or not declaration.is_private(identity)


def _fit(rows: Iterable[Any], tally: Counter[str]) -> Iterator[Message]:
    """Yield the messages within SQS's limit, in ASCII, and count the others."""
    for number, row in enumerate(rows):
        body = json.loads(row.body)
        text = json.dumps(body, separators=(",", ":"))
        if len(text) > LARGEST_BODY_BYTES:
            tally[UNFIT] += 1
        else:
            yield Message(text, Archived(row.message_id), number, group_of(body.get("practice")))


def _cut(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def _paced(cut: Iterable[list[T]], pacer: Pacer) -> Iterator[list[T]]:
    """Yield each batch when it is due."""
    for batch in cut:
        pacer.wait(len(batch))
        yield batch
