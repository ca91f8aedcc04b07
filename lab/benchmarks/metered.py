"""An in-memory DynamoDB that counts capacity units by DynamoDB's rules.

`oneslot/dynamodb_in_memory` performs the calls.

Units: 1 write unit for each KB written, twice that in a transaction, cancelled or not. A refused conditional write
costs as much as a performed one, and a change in an index is one more write. 1 read unit for each 4 KB read
consistently, half otherwise.
"""

from __future__ import annotations

import bisect
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.explore.practice import TABLES
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema

IDEMPOTENCY = "idempotency"
"""The table of Powertools' own layer, with the key from its documentation."""

ALL_TABLES = {**TABLES, IDEMPOTENCY: TableSchema("id")}
KB, READ_BYTES = 1_024, 4_096
TRANSACTION_PHASES = 2
INDEX_KEYS = frozenset({"practice", "slot_id", "free_key"})
_RANGE = "practice = :practice AND free_key BETWEEN :first AND :last"

WRITES, READS = "write units", "read units"


def item_bytes(item: Mapping[str, Any]) -> int:
    """Return the size of an item as DynamoDB counts it: names and values, a number by its digits."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "N":
        return math.ceil(len(str(content).lstrip("-")) / 2) + 1
    if kind in ("BOOL", "NULL"):
        return 1
    if kind in ("S", "B"):
        return len(str(content).encode())
    return len(json.dumps(content).encode())


class MeteredDynamoDB(InMemoryDynamoDB):
    """The explorer's port with an index by practice and a bill: `units` grows with each call."""

    def __init__(self) -> None:
        super().__init__(lambda: time.time_ns() // 1_000_000, ALL_TABLES, Contents({name: {} for name in ALL_TABLES}))
        self.units: Counter[str] = Counter()
        self._free: dict[str, list[tuple[str, str]]] = {}  # practice: (free_key, key), sorted
        self._any: dict[str, tuple[str, Any]] = {}  # practice: one of its slots
        self._narrowed: dict[str, Any] | None = None
        self._found_bytes = 0

    def seed(self, table: str, items: Iterable[Mapping[str, Any]]) -> None:
        """Store items, in DynamoDB's JSON, without a bill."""
        for item in items:
            self._store(table, self.tables[table].key_text(item), item)

    def query(self, **request: Any) -> Mapping[str, Any]:
        """Query the port, which sees the requested range rather than the whole table."""
        values = request.get("ExpressionAttributeValues", {})
        if request["KeyConditionExpression"] == _RANGE:
            entries = self._free.get(values[":practice"]["S"], [])
            start = bisect.bisect_left(entries, (values[":first"]["S"], ""))
            end = bisect.bisect_right(entries, (values[":last"]["S"], "\U0010ffff"))
            items = self.contents.tables["slots"]
            self._narrowed = {key: items[key] for _, key in entries[start : min(end, start + request["Limit"])]}
        elif request["KeyConditionExpression"] == "practice = :practice":  # asks whether the practice has a slot
            self._narrowed = dict([self._any[practice]] if (practice := values[":practice"]["S"]) in self._any else [])
        self._found_bytes = 0
        try:
            answer = super().query(**request)
        finally:
            self._narrowed = None
        self._read(self._found_bytes, consistent=request.get("ConsistentRead", False))
        return answer

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read an item."""
        answer = super().get_item(**request)
        self._read(item_bytes(answer.get("Item", {})), consistent=request.get("ConsistentRead", False))
        return answer

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """Read items. Each is billed as a read of its own; a missing one costs the minimum."""
        answer = super().batch_get_item(**request)
        for table, wanted in request["RequestItems"].items():
            found = [item_bytes(item) for item in answer["Responses"][table]]
            for size in [*found, *[0] * (len(wanted["Keys"]) - len(found))]:
                self._read(size, consistent=wanted.get("ConsistentRead", False))
        return answer

    def _projected(self, items: Sequence[Any], wanted: Sequence[Any] | None) -> list[Any]:
        # DynamoDB bills whole index entries, before the projection. Our index holds keys only; a query for more attributes is
        # billed as one on an index that holds them all.
        of_keys = wanted is not None and INDEX_KEYS.issuperset(path[0] for path in wanted)
        held = [{name: item[name] for name in INDEX_KEYS} for item in items] if of_keys else items
        self._found_bytes = sum(item_bytes(item) for item in held)
        return super()._projected(items, wanted)

    def _items(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return super()._items(request) if self._narrowed is None else self._narrowed

    def _read(self, size: int, *, consistent: bool) -> None:
        self.units[READS] += max(1, math.ceil(size / READ_BYTES)) * (2 if consistent else 1)  # in half units

    def _outcome(self, name: str, write: Mapping[str, Any], unchanged: bool) -> Any:
        factor = TRANSACTION_PHASES if name == "TransactWriteItems" else 1
        key = self._table(name, write).key_text(write.get("Key") or write["Item"])
        before = super()._items(write).get(key, {})
        try:
            outcome = super()._outcome(name, write, unchanged)
        except Exception:
            self.units[WRITES] += factor * max(1, math.ceil(item_bytes(before) / KB))
            raise
        after = outcome[2] or {}
        self.units[WRITES] += factor * max(1, math.ceil(max(item_bytes(before), item_bytes(after)) / KB))
        for index_key in (index.sort_key for index in self.tables[write["TableName"]].indexes.values()):
            old, new = before.get(index_key), after.get(index_key)
            if old != new:
                self.units[WRITES] += factor * sum(
                    max(1, math.ceil(item_bytes(one) / KB)) for one, has in ((before, old), (after, new)) if has
                )
        return outcome

    def _store(self, table_name: str, key: str, after: Any) -> None:
        if table_name == "slots":
            before = self.contents.tables["slots"].get(key, {})
            self._any.setdefault(after["practice"]["S"], (key, after))
            for item, there in ((before, True), (after or {}, False)):
                if "free_key" in item:
                    entries = self._free.setdefault(item["practice"]["S"], [])
                    entry = (item["free_key"]["S"], key)
                    if there:
                        entries.pop(bisect.bisect_left(entries, entry))
                    else:
                        bisect.insort(entries, entry)
        super()._store(table_name, key, after)
