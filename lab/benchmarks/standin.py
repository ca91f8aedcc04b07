"""A stand-in for DynamoDB and SQS on loopback that takes a set time for each call and counts calls and capacity units.

`stand_in()` runs it in a child process, `python -m lab.benchmarks.standin`, which prints its port.

- A call is answered `service_ms` after its last byte came, a transaction after twice that, because it prepares and
  commits. The work of the child is part of that time, so concurrent calls do not wait for each other unless their
  work takes longer.
- The items of a transaction are held until it is answered. Another write to one of them is refused meanwhile, as in
  DynamoDB: a transaction with the reason TransactionConflict at that item, a single write with
  TransactionConflictException.
- `MeteredDynamoDB` performs the calls and counts their units: 1 write unit for each KB written, twice that in a transaction,
  cancelled or not. A refused conditional write costs as much as a performed one, and a change in an index is one more
  write. 1 read unit for each 4 KB read consistently, half otherwise.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import http.client
import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.benchmarks.handlers import CONCURRENCY, SLOTS_A_WEEK, week
from lab.explore.practice import TABLES
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import cancelled
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.runtime.lambda_consumer import client_configuration
from oneslot.runtime.values import to_attributes


class Service:
    """The calls' times, the items that transactions hold, and the counts."""

    def __init__(self, service_ms: float) -> None:
        self.service_ms = service_ms
        self.dynamodb = MeteredDynamoDB()
        self.calls = 0
        self._held: set[tuple[str, str]] = set()

    async def call(self, target: str, request: dict[str, Any], arrived: float) -> tuple[int, bytes]:
        """Perform a call such as `DynamoDB_20120810.Query`; return its HTTP status and JSON answer when its time is over.

        `arrived` is by the running loop's clock. Calls to the service `Control` take no time.
        """
        service, _, operation = target.partition(".")
        if service == "Control":
            return 200, json.dumps(self._control(operation, request)).encode()
        self.calls += 1
        wanted = set(_written(operation, request))
        status, answer = self._perform(service, operation, request, wanted)
        body = json.dumps(answer).encode()
        is_transaction = operation == "TransactWriteItems"
        held = wanted if is_transaction and status == 200 else set()
        self._held |= held
        ends = arrived + (TRANSACTION_PHASES if is_transaction else 1) * self.service_ms / 1000
        await asyncio.sleep(ends - asyncio.get_running_loop().time())
        self._held -= held
        return status, body

    def _perform(
        self, service: str, operation: str, request: dict[str, Any], wanted: set[tuple[str, str]]
    ) -> tuple[int, dict[str, Any]]:
        if service == "AmazonSQS":
            return 200, {"MessageId": f"sent-{self.calls}"}
        try:
            if wanted & self._held:
                self._refuse_conflict(operation, request)
            method = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")
            answer = dict(getattr(self.dynamodb, method)(**request))
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

    def _control(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Seed, read and reset the stand-in. No AWS service has these operations."""
        units, calls = self.dynamodb.units, self.calls
        match operation:
            case "Reset":
                self.dynamodb, self._held = MeteredDynamoDB(), set()
            case "Time":
                self.service_ms = request["service_ms"]
            case "Seed":
                self.dynamodb.seed("slots", request["slots"])
            case "Bill":
                self.calls, self.dynamodb.units = 0, Counter()
        return {"calls": calls, "writes": units[WRITES], "reads": units[READS] / 2}


def _written(operation: str, request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the table and the key of each item that a request writes."""
    writes = [next(iter(action.values())) for action in request.get("TransactItems", ())]
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        writes = [request]
    return [
        (write["TableName"], ALL_TABLES[write["TableName"]].key_text(write.get("Key") or write["Item"]))
        for write in writes
    ]


class Connection(asyncio.Protocol):
    """The part of HTTP/1.1 that botocore uses: kept-alive connections, and a Content-Length with each request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._received = b""
        self._answering: set[asyncio.Task[None]] = set()  # an event loop keeps weak references only

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        arrived = loop.time()  # before the work of requests that came together
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, rest = self._received.split(b"\r\n\r\n", 1)
            headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            known = {name.lower(): value for name, value in headers.items()}
            length = int(known.get(b"content-length", b"0"))
            if len(rest) < length:
                return
            self._received = rest[length:]
            task = loop.create_task(self._answer(known[b"x-amz-target"].decode(), rest[:length], arrived))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, target: str, request: bytes, arrived: float) -> None:
        status, body = await self._service.call(target, json.loads(request or b"{}"), arrived)
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


class StandIn:
    """The control of a running stand-in, and clients for it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._session: Any = boto3.Session("123456789012", "none", region_name="eu-west-2")

    def control(self, operation: str, **request: Any) -> dict[str, Any]:
        """Call a control operation: `Reset`, `Seed`, `Time` or `Bill`."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        connection.request("POST", "/", json.dumps(request), {"X-Amz-Target": f"Control.{operation}"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def client(self, service: str = "dynamodb") -> Any:
        """Return boto3's client as the handler configures it, with a longer timeout: many processes share the machine."""
        config = client_configuration(CONCURRENCY).merge(Config(read_timeout=10))
        return self._session.client(service, endpoint_url=f"http://127.0.0.1:{self._port}", config=config)

    def reset(self, practices: Sequence[str]) -> None:
        """Empty the tables, and add free slots at these practices."""
        self.control("Reset")
        self.control("Seed", slots=[to_attributes(one) for name in practices for one in week(name, SLOTS_A_WEEK)])


@contextlib.contextmanager
def stand_in() -> Iterator[StandIn]:
    """Run the stand-in in a process that ends with the block."""
    command = [sys.executable, "-m", "lab.benchmarks.standin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError(f"The stand-in failed to start: exit status {process.wait()}")
            yield StandIn(int(line))
        finally:
            process.kill()


async def serve() -> None:
    """Print the port, and serve on loopback until killed."""
    service = Service(0)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(service), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _loop() -> asyncio.AbstractEventLoop:
    # select rather than epoll, because epoll rounds each wait up to whole milliseconds.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


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


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(serve())
