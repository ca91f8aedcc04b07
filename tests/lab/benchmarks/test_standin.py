"""The stand-in on a virtual clock, which only a test or a wait advances: the time and content of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lab.benchmarks.metered import MeteredDynamoDB
from lab.benchmarks.standin import Connection, Service

SERVICE_MS = 5


class StillLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, whose time advances only where it would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = self

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "waits for ever"
        self.now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        assert not events


class Wire:
    """A connection's other end: each answer with its millisecond and status."""

    def __init__(self, loop: StillLoop, service: Service) -> None:
        self._loop = loop
        self._connection = Connection(service)
        self._connection.connection_made(self)
        self.answers: list[tuple[int, int, dict[str, Any]]] = []

    def send(self, *requests: bytes) -> None:
        """Deliver requests within the loop."""
        for data in requests:
            self._loop.call_soon(self._connection.data_received, data)

    def write(self, data: bytes) -> None:
        """Keep an answer, as the connection's transport."""
        head, body = data.split(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        self.answers.append((round(self._loop.now * 1000), int(head.split()[1]), json.loads(body)))


def request(operation: str, **parameters: Any) -> bytes:
    body = json.dumps(parameters).encode()
    target = f"X-Amz-Target: DynamoDB_20120810.{operation}\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST / HTTP/1.1\r\n{target}".encode() + body


def get(message_id: str) -> bytes:
    return request("GetItem", TableName="ledger", Key={"message_id": {"S": message_id}})


def put(message_id: str) -> bytes:
    return request("PutItem", TableName="ledger", Item={"message_id": {"S": message_id}})


def transaction(*message_ids: str) -> bytes:
    puts = [{"Put": {"TableName": "ledger", "Item": {"message_id": {"S": one}}}} for one in message_ids]
    return request("TransactWriteItems", TransactItems=puts)


@pytest.fixture
def loop() -> Iterator[StillLoop]:
    loop = StillLoop()
    yield loop
    loop.close()


@pytest.fixture
def wire(loop: StillLoop) -> Callable[[], Wire]:
    service = Service(SERVICE_MS)
    return lambda: Wire(loop, service)


def run(loop: StillLoop, milliseconds: float) -> None:
    loop.run_until_complete(asyncio.sleep(milliseconds / 1000))


@pytest.mark.parametrize(("work_ms", "answered_at"), [(1, [5, 5, 5]), (3, [9, 9, 9])])
def test_concurrent_calls_share_the_service_time(
    loop: StillLoop,
    wire: Callable[[], Wire],
    monkeypatch: pytest.MonkeyPatch,
    work_ms: int,
    answered_at: list[int],
) -> None:
    def work(*_: Any, **__: Any) -> dict[str, Any]:
        loop.now += work_ms / 1000
        return {}

    monkeypatch.setattr(MeteredDynamoDB, "get_item", work)
    wires = [wire() for _ in answered_at]
    for one in wires:
        one.send(get("m"))
    run(loop, 50)
    assert sorted(at for one in wires for at, _, _ in one.answers) == answered_at


def test_service_time_begins_with_the_last_byte(loop: StillLoop, wire: Callable[[], Wire]) -> None:
    one, whole = wire(), put("m")
    one.send(whole[:20], whole[20:-1])
    run(loop, 30)
    assert one.answers == []
    one.send(whole[-1:] + get("m"))
    run(loop, 30)
    assert one.answers == [(35, 200, {}), (35, 200, {"Item": {"message_id": {"S": "m"}}})]


def test_transaction_takes_twice_as_long_and_holds_its_items(loop: StillLoop, wire: Callable[[], Wire]) -> None:
    first, write, other, reader, second = (wire() for _ in range(5))
    first.send(transaction("a", "b"))
    write.send(put("b"))
    other.send(put("c"))
    reader.send(get("a"))
    second.send(transaction("c", "a"))
    run(loop, 30)
    assert first.answers == [(10, 200, {})]
    [(at, status, refused)] = write.answers
    assert (at, status, refused["__type"].partition("#")[2]) == (5, 400, "TransactionConflictException")
    assert other.answers == [(5, 200, {})]
    assert [(at, status) for at, status, _ in reader.answers] == [(5, 200)]
    [(at, status, refused)] = second.answers
    assert (at, status) == (10, 400)
    assert [reason["Code"] for reason in refused["CancellationReasons"]] == ["None", "TransactionConflict"]
    second.send(transaction("c", "a"))
    run(loop, 30)
    assert second.answers[1:] == [(40, 200, {})]
