"""The ledger in memory: `DynamoDBLedger` over a DynamoDB in memory. What it accepts is what DynamoDB accepts.

It is for tests, and for trying an idea out. Nothing of it outlives the process.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.runtime.effects import LEDGER, Effects, InvalidEffects, Put, Write
from oneslot.runtime.protocol import Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Taken
from oneslot.runtime.stores.dynamodb import DynamoDB, DynamoDBLedger
from oneslot.runtime.stores.transaction import element, key_of
from oneslot.runtime.surroundings import Lock, Surroundings
from oneslot.runtime.values import canonical_json, from_attributes, from_json, to_attributes

RETENTION_SECONDS = 30 * 86_400


class MemoryLedger:
    """The `Store` steps on a DynamoDB in memory, one lock around each call.

    Args:
        keys: the key of each table, as `DynamoDBLedger` takes it. A table that is not named here has the key of the first
            write to it. Name types, as `id:S`, to refuse what DynamoDB would: without them the first write says a key's
            type, and nothing is known of indexes.
        sends: as of `DynamoDBLedger`; by default a decision may send to any name. The row keeps what would be sent.
        retention_seconds: as of `DynamoDBLedger`. By default effects are judged as the construct's ledger judges them; no
            row is ever deleted.

    Attributes:
        rows: the ledger, by message id.
        tables: the items by their tables' logical names, and then by `item_key` of their keys. Give a table its items:
            `ledger.tables["seats"] = [{"seat": "A1"}]`.
        client: reads and writes the tables as boto3's client does. Their real names are the logical ones.
    """

    def __init__(
        self,
        *,
        keys: Mapping[str, str | tuple[str, ...]] | None = None,
        sends: Mapping[str, str] | None = None,
        retention_seconds: int | None = RETENTION_SECONDS,
        surroundings: Surroundings | None = None,
    ) -> None:
        self.surroundings = surroundings or Surroundings()
        ledger = {LEDGER: TableSchema("message_id", types={"message_id": "S"})}
        dynamodb = InMemoryDynamoDB(self.surroundings.now_ms, ledger)
        self.client = cast("DynamoDB", _Locked(dynamodb, self.surroundings.threads.lock()))
        self._ledger = DynamoDBLedger(
            self.client,
            LEDGER,
            retention_seconds=retention_seconds,
            keys=keys,
            sends=sends,
            surroundings=self.surroundings,
        )
        if sends is None:
            self._ledger.sends = None
        self.rows = _Items(dynamodb, LEDGER, lambda row: str(row["message_id"]))
        self.tables = _Tables(dynamodb, self._ledger)

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms)."""
        return self._ledger.claim(message_id, payload_hash, lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or nothing."""
        if isinstance(effects, Effects):
            self.tables.open_for(effects.all_writes)
        return self._ledger.commit(claim, effects)

    def release(self, claim: Claim) -> bool:
        """End the lease now."""
        return self._ledger.release(claim)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least."""
        return self._ledger.extend(claim, lease_until)


class _Locked:
    """A DynamoDB whose calls wait for each other."""

    def __init__(self, dynamodb: InMemoryDynamoDB, lock: Lock) -> None:
        self._dynamodb, self._lock = dynamodb, lock

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            with self._lock:
                return getattr(self._dynamodb, operation)(**request)

        return call


class _Items(MutableMapping[str, dict[str, Any]]):
    """The items of a table as plain values, by a text of their keys."""

    def __init__(self, dynamodb: InMemoryDynamoDB, table: str, key_text: Callable[[dict[str, Any]], str]) -> None:
        self._dynamodb, self._table, self._key_text = dynamodb, table, key_text

    def __getitem__(self, key_text: str) -> dict[str, Any]:
        return dict(self._read())[key_text]

    def __setitem__(self, key_text: str, item: Mapping[str, Any]) -> None:
        self._dynamodb.put_item(TableName=self._table, Item=to_attributes(item))

    def __delitem__(self, key_text: str) -> None:
        item, names = to_attributes(self[key_text]), self._dynamodb.tables[self._table].keys
        self._dynamodb.delete_item(TableName=self._table, Key={name: item[name] for name in names})

    def __iter__(self) -> Iterator[str]:
        return (text for text, _ in self._read())

    def __len__(self) -> int:
        return len(self._dynamodb.contents.tables[self._table])

    def __repr__(self) -> str:
        return repr(dict(self))

    def _read(self) -> list[tuple[str, dict[str, Any]]]:
        items = [from_attributes(item) for item in list(self._dynamodb.contents.tables[self._table].values())]
        return [(self._key_text(item), item) for item in items]


class _Tables(MutableMapping[str, MutableMapping[str, dict[str, Any]]]):
    """The tables by their logical names. One whose key is not declared exists once something is written to it."""

    def __init__(self, dynamodb: InMemoryDynamoDB, ledger: DynamoDBLedger) -> None:
        self._dynamodb, self._ledger = dynamodb, ledger
        for table in ledger.keys:
            self._open(table, {})

    def __getitem__(self, table: str) -> _Items:
        if table == LEDGER or table not in self._dynamodb.tables:
            raise KeyError(table)
        names = self._dynamodb.tables[table].keys
        return _Items(self._dynamodb, table, lambda item: item_key({name: item[name] for name in names}))

    def __setitem__(self, table: str, items: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> None:
        """Replace a table's items. Those of a table whose key is not declared are by `item_key`, which names it."""
        if isinstance(items, Mapping):
            for text in items:
                self._ledger.keys.setdefault(table, tuple(from_json(text)))
            items = list(items.values())  # which may be of this very table
        self._dynamodb.contents.tables.pop(table, None)
        if table in self._ledger.keys:
            self._open(table, {})
        for item in items:
            self._open(table, to_attributes(key_of(Put(table, item), self._ledger.keys)))
            self[table][""] = dict(item)

    def __delitem__(self, table: str) -> None:
        del self._dynamodb.contents.tables[table], self._dynamodb.tables[table]

    def __iter__(self) -> Iterator[str]:
        return (table for table in self._dynamodb.tables if table != LEDGER)

    def __len__(self) -> int:
        return len(self._dynamodb.tables) - 1

    def open_for(self, writes: Iterable[Write]) -> None:
        """Make the tables of a decision's writes. What is wrong with a write, the ledger says when it commits."""
        for write in writes:
            table = getattr(write, "table", LEDGER)
            if table == LEDGER:
                continue
            self._ledger.tables[table] = table
            if (known := self._dynamodb.tables.get(table)) is not None and known.types:
                continue
            try:
                key = element(write, self._ledger.keys).key
            except InvalidEffects:
                continue
            kinds = {kind for value in key.values() for kind in value}
            if len(key) <= 2 and kinds <= {"S", "N", "B"}:  # noqa: PLR2004 - a partition key and a sort key
                self._ledger.keys.setdefault(table, tuple(key))
                self._open(table, key)

    def _open(self, table: str, key: Mapping[str, Any]) -> None:
        """Make a table unless it exists. The first key that is written says of which types its keys are."""
        known = self._dynamodb.tables.get(table)
        if known is None or (key and not known.types):
            partition_key, sort_key = (*self._ledger.keys[table], "")[:2]
            types = {name: next(iter(value)) for name, value in key.items()}
            self._dynamodb.tables[table] = TableSchema(partition_key, sort_key, types=types)
        self._dynamodb.contents.tables.setdefault(table, {})
        self._ledger.tables[table] = table


def item_key(key: Mapping[str, Any]) -> str:
    """Return key attributes and their values as one canonical text, with bytes as Base64."""
    texts = {name: b64encode(value).decode() for name, value in key.items() if isinstance(value, bytes | bytearray)}
    return canonical_json({**key, **texts})
