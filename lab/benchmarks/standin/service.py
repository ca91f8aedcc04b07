"""The stand-in's service: each call takes a set time, transactions hold their items, and calls and units are counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lab.benchmarks.standin.metered_dynamodb import ALL_TABLES, READS, TRANSACTION_PHASES, WRITES, MeteredDynamoDB
from oneslot.dynamodb_in_memory.answers import cancelled


class Service:
    """The calls' times, the items that transactions hold, and the counts."""

    def __init__(self, service_ms: float) -> None:
        self.service_ms = service_ms
        self.dynamodb = MeteredDynamoDB()
        self.calls: Counter[str] = Counter()
        self.conflicts = 0
        self.cancelled = 0  # transactions
        self.cancelled_writes = 0  # their units
        self._held: set[tuple[str, str]] = set()

    async def call(self, target: str, request: dict[str, Any], arrived: float) -> tuple[int, bytes]:
        """Perform a call such as `DynamoDB_20120810.Query`; return its HTTP status and JSON answer when its time is over.

        `arrived` is by the running loop's clock. Calls to the service `Control` take no time.
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
        """Seed, read and reset the stand-in. No AWS service has these operations."""
        match operation:
            case "Reset":
                self.dynamodb, self._held = MeteredDynamoDB(), set()
            case "Time":
                self.service_ms = request["service_ms"]
            case "Seed":
                self.dynamodb.seed(request["table"], request["items"])
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
