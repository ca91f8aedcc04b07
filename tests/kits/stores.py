"""The stores that the contract suite runs against, each with a view of its rows."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import redis
from moto import mock_aws

from oneslot.runtime.protocol import Claim, Store
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.stores.valkey import ValkeyLedger
from oneslot.runtime.values import from_attributes, to_attributes
from tests.kits.consumer import Clock, create_table, moto_client, surroundings

TABLE = "things"
KEY = "thing_id"
TARGET = "mails"
RETENTION_SECONDS = 100


KEYS: dict[str, str | tuple[str, str]] = {"stock": "sku", "shop": ("customer", "line"), "scans": "digest"}
"""The tables of the tests of a decision's words: a key of one text, one of two parts, and one of bytes."""
TYPES = {"sku": "S", "customer": "S", "line": "N", "digest": "B", "message_id": "S"}


def ledger_over(
    client: Any, prefix: str = "", retention_seconds: int | None = None, sends: Mapping[str, str] | None = None
) -> DynamoDBLedger:
    """Create the tables, each under its name behind the prefix, and return a ledger."""
    for table, key in ({"ledger": "message_id"} | KEYS).items():
        names = (key,) if isinstance(key, str) else key
        client.create_table(
            TableName=prefix + table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
            ],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": TYPES[name]} for name in names],
        )
    return DynamoDBLedger(
        client,
        f"{prefix}ledger",
        retention_seconds=retention_seconds,
        tables={table: prefix + table for table in KEYS},
        keys=KEYS,
        sends=sends,
        surroundings=surroundings(Clock()),
    )


@contextmanager
def in_either(kind: str, sends: Mapping[str, str] | None = None) -> Iterator[MemoryLedger | DynamoDBLedger]:
    """A ledger over the DynamoDB in "memory", or over "moto"."""
    if kind == "memory":
        yield MemoryLedger(keys=KEYS, sends=sends, surroundings=surroundings(Clock()))
        return
    with mock_aws():
        yield ledger_over(moto_client("dynamodb"), retention_seconds=RETENTION_SECONDS, sends=sends)


def claim(ledger: Store, message_id: str = "m-1", payload_hash: str = "h", lease_ms: int = 30_000) -> Claim:
    """Claim a message that is free."""
    granted = ledger.claim(message_id, payload_hash, ledger.surroundings.now_ms() + lease_ms)
    assert isinstance(granted, Claim)
    return granted


def found(ledger: Any, table: str, **key: Any) -> dict[str, Any] | None:
    """Read an item by its key."""
    answer = ledger.client.get_item(TableName=table, Key=to_attributes(key), ConsistentRead=True)
    return from_attributes(answer["Item"]) if "Item" in answer else None


class Kept(Protocol):
    """A store of a ledger's rows, with a table of things whose key is `thing_id`."""

    clock: Clock

    def ledger(self, *, for_ever: bool = False) -> Store:
        """Return another ledger over the same rows."""

    def row(self, message_id: str) -> dict[str, Any] | None:
        """Return a row of the ledger without its expiry."""

    def lives_for(self, message_id: str) -> int | None:
        """Return the seconds until the row expires, or None if it never does."""

    def thing(self, thing_id: str) -> dict[str, Any] | None:
        """Return a thing."""

    def keep(self, thing: Mapping[str, Any]) -> None:
        """Put a thing into the store before the test."""


@dataclass
class InDynamoDB:
    client: Any
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        for name, key in (("ledger", "message_id"), (TABLE, KEY)):
            create_table(self.client, name, key)

    def ledger(self, *, for_ever: bool = False) -> Store:
        return DynamoDBLedger(
            self.client,
            "ledger",
            retention_seconds=None if for_ever else RETENTION_SECONDS,
            tables={TABLE: TABLE},
            keys={TABLE: KEY},
            sends={TARGET: "https://sqs.eu-west-2.amazonaws.com/123456789012/mails"},
            surroundings=surroundings(self.clock),
        )

    def row(self, message_id: str) -> dict[str, Any] | None:
        row = found(self, "ledger", message_id=message_id) if message_id else None  # no key is empty
        return row and {name: value for name, value in row.items() if name != "expires_at"}

    def lives_for(self, message_id: str) -> int | None:
        expires_at = (found(self, "ledger", message_id=message_id) or {}).get("expires_at")
        return None if expires_at is None else expires_at - self.clock() // 1000

    def thing(self, thing_id: str) -> dict[str, Any] | None:
        return found(self, TABLE, **{KEY: thing_id})

    def keep(self, thing: Mapping[str, Any]) -> None:
        self.client.put_item(TableName=TABLE, Item=to_attributes(thing))


@dataclass
class InMemory(InDynamoDB):
    """A `MemoryLedger`, and other ledgers over its DynamoDB."""

    client: Any = None

    def __post_init__(self) -> None:
        self._ledger = MemoryLedger(
            keys={TABLE: KEY}, retention_seconds=RETENTION_SECONDS, surroundings=surroundings(self.clock)
        )
        self.client = self._ledger.client

    def ledger(self, *, for_ever: bool = False) -> Store:
        return super().ledger(for_ever=True) if for_ever else self._ledger


@contextmanager
def in_dynamodb() -> Iterator[InDynamoDB]:
    """A ledger on moto."""
    with mock_aws():
        yield InDynamoDB(moto_client("dynamodb"))


@dataclass
class InValkey:
    client: redis.Redis
    clock: Clock = field(default_factory=Clock)

    def ledger(self, *, for_ever: bool = False) -> ValkeyLedger:
        return ValkeyLedger(
            self.client,
            retention_seconds=None if for_ever else RETENTION_SECONDS,
            keys={TABLE: KEY},
            surroundings=surroundings(self.clock),
        )

    def row(self, message_id: str) -> dict[str, Any] | None:
        row: Any = self.client.hgetall(self.ledger().row_key(message_id))
        numbers = {"consumption_count", "updated", "lease_until"}
        return {name: int(value) if name in numbers else value for name, value in row.items()} or None

    def lives_for(self, message_id: str) -> int | None:
        left: Any = self.client.pttl(self.ledger().row_key(message_id))  # ms by the server's clock; -1: never
        return -(-left // 1000) if left > 0 else None

    def thing(self, thing_id: str) -> dict[str, Any] | None:
        return self.ledger().item(TABLE, {KEY: thing_id})

    def keep(self, thing: Mapping[str, Any]) -> None:
        key = self.ledger().item_key(TABLE, {KEY: thing[KEY]})
        for name, value in thing.items():
            self.client.hset(key, name, json.dumps(value))
