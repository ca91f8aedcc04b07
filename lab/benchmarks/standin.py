"""A stand-in for DynamoDB and SQS that takes a set time for each call, and counts calls and capacity units.

It answers within boto3's own clients, which sign and parse as ever: in place of the HTTP connection, whose CPU no
handler pays here.

- A call is answered `service_ms` after it was sent, a transaction after twice that, because it prepares and commits.
  The stand-in's own work is part of that time, so concurrent calls do not wait for each other unless their work takes
  longer. Its CPU is not the handler's.
- The items of a transaction are held until it is answered. Another write to one of them is refused meanwhile, as in
  DynamoDB: a transaction with the reason TransactionConflict at that item, a single write with
  TransactionConflictException.
- `MeteredDynamoDB` performs the calls and counts their units: 1 write unit for each KB written, twice that in a transaction,
  cancelled or not. A refused conditional write costs as much as a performed one, and a change in an index is one more
  write. 1 read unit for each 4 KB read consistently, half otherwise.
"""

import bisect
import io
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import boto3
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError

from lab.benchmarks.handlers import CONCURRENCY, SLOTS_A_WEEK, week
from lab.explore.practice import TABLES
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import cancelled
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.runtime.lambda_consumer import client_configuration
from oneslot.runtime.values import to_attributes


class StandIn:
    """One account's DynamoDB and SQS, with free slots at these practices.

    Attributes:
        service_ms: how long a call takes.
        calls, cpu_seconds: the calls so far, and the stand-in's own work for them.
    """

    def __init__(self, practices: Sequence[str], service_ms: float = 0.0) -> None:
        self.service_ms = service_ms
        self.dynamodb = MeteredDynamoDB()
        self.dynamodb.seed("slots", (to_attributes(one) for name in practices for one in week(name, SLOTS_A_WEEK)))
        self.calls = 0
        self.cpu_seconds = 0.0
        self._held: set[tuple[str, str]] = set()
        self._working = threading.Lock()

    def client(self, service: str = "dynamodb") -> Any:
        """Return boto3's client as the handler configures it."""
        session: Any = boto3.Session("123456789012", "none", region_name="eu-west-2")
        client = session.client(service, config=client_configuration(CONCURRENCY))
        client.meta.events.register("before-send", self._send)
        return client

    def _send(self, request: Any, **_: Any) -> AWSResponse:
        """Return the answer to an `AWSPreparedRequest` when its time is over, in place of a connection."""
        arrived, arrived_cpu = time.perf_counter(), time.thread_time()
        parameters = json.loads(request.body)
        service, _, operation = request.headers["X-Amz-Target"].decode().partition(".")
        is_transaction = operation == "TransactWriteItems"
        with self._working:
            self.calls += 1
            wanted = set(_written(operation, parameters))
            status, answer = self._perform(service, operation, parameters, wanted)
            held = wanted if is_transaction and status == 200 else set()
            self._held |= held
            body = _Body(json.dumps(answer).encode())
            self.cpu_seconds += time.thread_time() - arrived_cpu
        ends = arrived + (TRANSACTION_PHASES if is_transaction else 1) * self.service_ms / 1000
        time.sleep(max(0.0, ends - time.perf_counter()))
        self._held -= held
        return AWSResponse(request.url, status, HTTPHeaders(), body)

    def _perform(
        self, service: str, operation: str, request: dict[str, Any], wanted: set[tuple[str, str]]
    ) -> tuple[int, dict[str, Any]]:
        if service == "AmazonSQS":
            return 200, {"MessageId": f"sent-{self.calls}"}
        try:
            if wanted & self._held:
                self._refuse_conflict(operation, request)
            answer = dict(getattr(self.dynamodb, xform_name(operation))(**request))
        except ClientError as error:
            response: dict[str, Any] = {**error.response}
            about = response.pop("Error")
            response.pop("ResponseMetadata", None)
            kind = f"com.amazonaws.dynamodb.v20120810#{about['Code']}"
            return 400, {"__type": kind, "message": about["Message"], **response}
        answer.pop("ResponseMetadata", None)
        return 200, answer

    def _refuse_conflict(self, operation: str, request: Mapping[str, Any]) -> None:
        if operation != "TransactWriteItems":
            message = "Transaction is ongoing for the item"
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": message}}, operation)
        held = [target in self._held for target in _written(operation, request)]
        self.dynamodb.units[WRITES] += TRANSACTION_PHASES * len(held)
        raise cancelled({"Code": "TransactionConflict" if one else "None"} for one in held)


class _Body(io.BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _written(operation: str, request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the table and the key of each item that a request writes."""
    writes = [next(iter(action.values())) for action in request.get("TransactItems", ())]
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        writes = [request]
    return [
        (write["TableName"], ALL_TABLES[write["TableName"]].key_text(write.get("Key") or write["Item"]))
        for write in writes
    ]


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
