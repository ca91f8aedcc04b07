"""32 consumers take a piece of one article at the same time: calls of an order, and decisions made again.

Each consumer waits before each call until all others wait, too: the worst case, and the same in every run. DynamoDB in memory
performs the calls. It has no `TransactionConflict`, which repeats a commit and no decision.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from boto3.dynamodb.conditions import Attr
from greenlet import getcurrent, greenlet

from lab.benchmarks.handlers import table
from lab.peers.powertools import powertools
from oneslot import Effects, JsonMessage, MemoryLedger, Once, Put, Surroundings, Update, attempt
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.runtime.sqs.lambda_event import Context, event_of
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import from_attributes, to_attributes

CONSUMERS = 32
KEYS = {"ledger": "message_id", "stock": "article", "orders": "id", "idempotency": "id"}
TEAPOT = {"article": "teapot"}
SOLD_OUT = Effects({"outcome": "sold_out"})


class Stepping:
    """A client that lets all other consumers come to their next call before each of its own."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()
        self.decisions = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**request: Any) -> Any:
            getcurrent().parent.switch()
            self.calls[name] += 1
            return method(**request)

        return call


Way = Callable[[Stepping, str], None]
"""Performs one order: the client, the order's id."""


def _on_oneslot(decide: Callable[[Stepping, str], Effects]) -> Way:
    def order(client: Stepping, message_id: str) -> None:
        def decided(_: JsonMessage) -> Effects:
            client.decisions += 1
            return decide(client, message_id)

        ledger = DynamoDBLedger(
            client,
            "ledger",
            retention_seconds=86_400,
            tables={"stock": "stock", "orders": "orders"},
            keys={"stock": "article", "orders": "id"},
            surroundings=Surroundings(sleep=lambda _: None, jitter=lambda: 0.0),
        )
        attempt(ledger, JsonMessage(message_id), decided, ledger.surroundings.now_ms() + 600_000)

    return order


def _otherwise(_: Stepping, message_id: str) -> Effects:
    take = Update("stock", TEAPOT, Attr("left").gt(0), add={"left": -1}, otherwise=lambda _: SOLD_OUT)
    return Effects({"outcome": "taken"}, [take], once=Once(Put("orders", {"id": message_id})))


def _read_and_expect(client: Stepping, message_id: str) -> Effects:
    found = client.get_item(TableName="stock", Key=to_attributes(TEAPOT), ConsistentRead=True)
    left = from_attributes(found["Item"])["left"]
    if left == 0:
        return SOLD_OUT
    take = Update("stock", TEAPOT, expect={"left": left}, set={"left": left - 1})
    return Effects({"outcome": "taken"}, [take], once=Once(Put("orders", {"id": message_id})))


def _powertools(client: Stepping, message_id: str) -> None:
    """Count with `ADD`, which a crash repeats."""

    def take(_: Any, message: Mapping[str, Any]) -> dict[str, Any]:
        client.decisions += 1
        client.update_item(
            TableName="stock",
            Key=to_attributes(TEAPOT),
            UpdateExpression="ADD #left :one",
            ExpressionAttributeNames={"#left": "left"},
            ExpressionAttributeValues=to_attributes({":one": -1}),
        )
        return {"outcome": "taken"}

    powertools(client, take)(event_of({"message_id": message_id}), Context())


WAYS: Mapping[str, Way] = {
    "`add` with `otherwise`": _on_oneslot(_otherwise),
    "read and expect": _on_oneslot(_read_and_expect),
    "Powertools around `ADD`, which may count twice": _powertools,
}


def measured(way: Way, pieces: int) -> tuple[Stepping, int]:
    """Return the calls and decisions of one order by each consumer at once, and the pieces that are left."""
    tables = {name: TableSchema(key) for name, key in KEYS.items()}
    clock = MemoryLedger().surroundings
    dynamodb = InMemoryDynamoDB(clock.now_ms, tables, Contents({name: {} for name in tables}))
    dynamodb.put_item(TableName="stock", Item=to_attributes({**TEAPOT, "left": pieces}))
    client = Stepping(dynamodb)
    waiting = [greenlet(way) for _ in range(CONSUMERS)]
    for number, one in enumerate(waiting):
        one.switch(client, f"o-{number}")
    while waiting := [one for one in waiting if not one.dead]:
        for one in waiting:
            one.switch()
    left = dynamodb.get_item(TableName="stock", Key=to_attributes(TEAPOT), ConsistentRead=True)
    return client, from_attributes(left["Item"])["left"]


def tables(short: bool) -> str:
    """Return the table."""
    rows = []
    for name, way in WAYS.items():
        for pieces in (CONSUMERS, 0) if way is not _powertools else (CONSUMERS,):
            client, _ = measured(way, pieces)
            rows.append([name, pieces, client.calls.total() / CONSUMERS, client.decisions - CONSUMERS])
    return table(["way", "pieces", "calls an order", "decisions made again"], rows)
