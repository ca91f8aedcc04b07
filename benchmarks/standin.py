"""A stand-in for DynamoDB and SQS on loopback that takes a set time for each call and counts calls and capacity units.

    python -m benchmarks.standin --port 0 --service-ms 5

What a call does is done by the prover's port (`oneslot/explorer/services/dynamodb.py`), which `tests/oneslot/explorer/services/test_dynamodb_contract.py` holds to
moto and to the embedded AWS. Here are the time, the contention and the bill:

- A call is answered `service_ms` after its last byte came, a transaction after twice that: it prepares and commits. The work of
  this process is part of that time, so calls that come together do not wait for each other, unless their work takes longer.
- The items of a transaction are held until it is answered. Another write to one of them in the meantime is refused, as in
  DynamoDB: a transaction with the reason TransactionConflict at that item, a single write with TransactionConflictException.
- Units by DynamoDB's rules: 1 for each KB written, twice in a transaction, cancelled or not; a refused conditional write costs
  as much as a performed one; what changes in an index is one more write; 1 for each 4 KB read consistently, half otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import math
import os
import selectors
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.ending import ended
from oneslot.explorer.services.dynamodb import Contents, InMemoryDynamoDB, Table, cancelled
from oneslot.explorer.world import TABLES

IDEMPOTENCY = "idempotency"
"""The table of Powertools' own layer, keyed as its documentation has it."""

ALL_TABLES = {**TABLES, IDEMPOTENCY: Table("id")}
KB, READ_BYTES = 1_024, 4_096
TRANSACTION_PHASES = 2
INDEX_KEYS = frozenset({"practice", "slot_id", "free_key"})
_RANGE = "practice = :practice AND free_key BETWEEN :first AND :last"

WRITES, READS = "write units", "read units"


def item_bytes(item: Mapping[str, Any]) -> int:
    """The size of an item as DynamoDB counts it: names and values, a number by its digits."""
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
    """The port, with partitions that are found at once and a bill. `units` and `sizes` grow with each call."""

    def __init__(self) -> None:
        super().__init__(lambda: time.time_ns() // 1_000_000, ALL_TABLES, Contents({name: {} for name in ALL_TABLES}))
        self.units: Counter[str] = Counter()
        self._free: dict[str, list[tuple[str, str]]] = {}  # practice: (free_key, key), sorted
        self._any: dict[str, tuple[str, Any]] = {}  # practice: one of its slots
        self._narrowed: dict[str, Any] | None = None
        self._found_bytes = 0

    def query(self, **request: Any) -> Mapping[str, Any]:
        """As the port, which is shown the range that was asked for and not the whole table."""
        values = request.get("ExpressionAttributeValues", {})
        if request["KeyConditionExpression"] == _RANGE:
            entries = self._free.get(values[":practice"]["S"], [])
            start = bisect.bisect_left(entries, (values[":first"]["S"], ""))
            end = bisect.bisect_right(entries, (values[":last"]["S"], "\U0010ffff"))
            items = self.contents.tables["slots"]
            self._narrowed = {key: items[key] for _, key in entries[start : min(end, start + request["Limit"])]}
        elif request["KeyConditionExpression"] == "practice = :practice":  # whether there is one
            self._narrowed = dict([self._any[practice]] if (practice := values[":practice"]["S"]) in self._any else [])
        self._found_bytes = 0
        try:
            answer = super().query(**request)
        finally:
            self._narrowed = None
        self._read(self._found_bytes, consistent=request.get("ConsistentRead", False))
        return answer

    def get_item(self, **request: Any) -> Mapping[str, Any]:
        """As the port."""
        answer = super().get_item(**request)
        self._read(item_bytes(answer.get("Item", {})), consistent=request.get("ConsistentRead", False))
        return answer

    def batch_get_item(self, **request: Any) -> Mapping[str, Any]:
        """As the port. Each item is a read of its own; one that is not there costs the least."""
        answer = super().batch_get_item(**request)
        for table, wanted in request["RequestItems"].items():
            found = [item_bytes(item) for item in answer["Responses"][table]]
            for size in [*found, *[0] * (len(wanted["Keys"]) - len(found))]:
                self._read(size, consistent=wanted.get("ConsistentRead", False))
        return answer

    def _projected(self, items: Sequence[Any], wanted: Sequence[str] | None) -> list[Any]:
        # Of whole entries: what a projection leaves out is billed, too. Our index holds keys only; who asks for more than
        # these is taken to have one that holds all.
        of_keys = wanted is not None and INDEX_KEYS.issuperset(wanted)
        held = [{name: item[name] for name in INDEX_KEYS} for item in items] if of_keys else items
        self._found_bytes = sum(item_bytes(item) for item in held)
        return super()._projected(items, wanted)

    def _items(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return super()._items(request) if self._narrowed is None else self._narrowed

    def _read(self, size: int, *, consistent: bool) -> None:
        self.units[READS] += max(1, math.ceil(size / READ_BYTES)) * (2 if consistent else 1)  # halves, whole in `bill`

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
        for index_key in self.tables[write["TableName"]].indexes.values():
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


class Service:
    """All that a call passes through: the time that it takes, the items that transactions hold, the counts."""

    def __init__(self, service_ms: float) -> None:
        self.service_ms = service_ms
        self.dynamodb = MeteredDynamoDB()
        self.calls: Counter[str] = Counter()
        self.conflicts = 0
        self.cancelled = 0  # transactions that were refused, for whatever reason
        self.cancelled_writes = 0  # the units that they cost
        self._held: set[tuple[str, str]] = set()

    async def call(self, target: str, request: dict[str, Any], arrived: float) -> tuple[int, bytes]:
        """Perform a call (`DynamoDB_20120810.Query`, ...) that arrived at this time of the running loop's clock.

        Returns its HTTP status and JSON answer, when its time is over. What has Control for a service takes none.
        """
        service, _, operation = target.partition(".")
        if service == "Control":
            return 200, json.dumps(self._control(operation, request)).encode()
        self.calls[operation] += 1
        held: set[tuple[str, str]] = set()
        if service == "AmazonSQS":
            status, answer = 200, {"MessageId": f"sent-{self.calls[operation]}"}
        else:
            status, answer, held = self._dynamodb(operation, request)
        body = json.dumps(answer).encode()
        phases = TRANSACTION_PHASES if operation == "TransactWriteItems" else 1
        await asyncio.sleep(arrived + phases * self.service_ms / 1000 - asyncio.get_running_loop().time())
        self._held -= held
        return status, body

    def _dynamodb(self, operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any], set[tuple[str, str]]]:
        wanted = self._written(operation, request)
        before = self.dynamodb.units[WRITES]
        try:
            if held := [target in self._held for target in wanted]:
                self._refuse_conflict(operation, held)
            method = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")
            answer = dict(getattr(self.dynamodb, method)(**request))
        except ClientError as error:
            if operation == "TransactWriteItems":
                self.cancelled += 1
                self.cancelled_writes += self.dynamodb.units[WRITES] - before
            response: dict[str, Any] = {**error.response}
            about = response.pop("Error")
            response.pop("ResponseMetadata", None)
            body = {
                "__type": f"com.amazonaws.dynamodb.v20120810#{about['Code']}",
                "message": about["Message"],
                **response,
            }
            return 400, body, set()
        answer.pop("ResponseMetadata", None)
        if operation != "TransactWriteItems":
            return 200, answer, set()
        self._held |= set(wanted)
        return 200, answer, set(wanted)

    def _refuse_conflict(self, operation: str, held: list[bool]) -> None:
        if not any(held):
            return
        self.conflicts += 1
        if operation != "TransactWriteItems":
            message = "Transaction is ongoing for the item"
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": message}}, operation)
        self.dynamodb.units[WRITES] += TRANSACTION_PHASES * len(held)
        raise cancelled({"Code": "TransactionConflict" if one else "None"} for one in held)

    def _written(self, operation: str, request: Mapping[str, Any]) -> list[tuple[str, str]]:
        if operation in ("PutItem", "UpdateItem", "DeleteItem"):
            writes = [request]
        elif operation == "TransactWriteItems":
            writes = [next(iter(action.values())) for action in request["TransactItems"]]
        else:
            writes = []
        return [
            (write["TableName"], ALL_TABLES[write["TableName"]].key_text(write.get("Key") or write["Item"]))
            for write in writes
        ]

    def _control(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Not part of any service: seeding, counts, the time that calls take."""
        match operation:
            case "Reset":
                self.dynamodb, self._held = MeteredDynamoDB(), set()
            case "Time":
                self.service_ms = request["service_ms"]
            case "Seed":
                table = ALL_TABLES[request["table"]]
                for item in request["items"]:
                    self.dynamodb._store(request["table"], table.key_text(item), item)
            case "Rows":
                return {"rows": list(self.dynamodb.contents.tables[request["table"]].values())}
            case "Bill":
                units = self.dynamodb.units
                bill: dict[str, Any] = {"calls": dict(self.calls), "writes": units[WRITES], "reads": units[READS] / 2}
                bill |= {"conflicts": self.conflicts, "cancelled": self.cancelled}
                bill["cancelled_writes"] = self.cancelled_writes
                self.calls, self.dynamodb.units = Counter(), Counter()
                self.conflicts = self.cancelled = self.cancelled_writes = 0
                return bill
        return {}


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with kept-alive connections, as far as botocore speaks it: a request has a Content-Length and one answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._received = b""
        self._answering: set[asyncio.Task[None]] = set()  # a loop alone does not keep its tasks

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        arrived = loop.time()  # not when its turn comes: others may have come with it
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, rest = self._received.split(b"\r\n\r\n", 1)
            headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(headers.get(b"content-length", b"0"))
            if len(rest) < length:
                return
            self._received = rest[length:]
            target = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"x-amz-target"))
            name = target.split(b": ", 1)[1].decode()
            task = loop.create_task(self._answer(name, rest[:length], arrived))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, target: str, request: bytes, arrived: float) -> None:
        status, body = await self._service.call(target, json.loads(request or b"{}"), arrived)
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve(port: int, service_ms: float) -> None:
    """Serve on loopback until killed; prints the port."""
    service = Service(service_ms)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(service), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _loop() -> asyncio.AbstractEventLoop:
    # The default, epoll, waits whole milliseconds, rounded up: each call would take up to one more than was set.
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--service-ms", type=float, default=5.0)
    parser.add_argument("--child", action="store_true", help="end when standard input does: with the parent")
    options = parser.parse_args()
    if options.child:
        # A terminal sends it to both, and the parent may still have calls to make.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
    with asyncio.Runner(loop_factory=_loop) as runner:
        runner.run(serve(options.port, options.service_ms))


if __name__ == "__main__":
    sys.exit(ended(main))
