"""The bad network: a proxy on loopback between the handlers and the embedded AWS. `proxy_process` runs it as a module.

It is a process of its own, so that neither the poller nor the load waits for it. It writes a line with its port, then a
line with its counts for each line of standard input. The line `calm` ends the faults; the end of input ends the proxy.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field

import h11

from lab.soak.http_messages import HttpConnection, HttpMessage, error_answer
from lab.soak.plan import NetworkFault, NetworkPlan

HOST = "127.0.0.1"
# Counted from the client's timeout, so that the request lands after its retry.
LATE_SECONDS = 0.5
SLOW_SECONDS = 0.3
CALM = "calm"


@dataclass
class Upstream:
    """One connection to the embedded AWS, opened when it is first needed."""

    port: int
    _connection: HttpConnection | None = None

    async def ask(self, request: HttpMessage) -> HttpMessage:
        """Send a request and return its response. Raises `OSError` if the connection breaks."""
        if self._connection is None or not self._connection.next_exchange():
            self.close()
            self._connection = HttpConnection(*await asyncio.open_connection(HOST, self.port), h11.CLIENT)
        await self._connection.send(request)
        answer = await self._connection.receive()
        if answer is None:
            raise ConnectionResetError
        return answer

    def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            self._connection.close()


@dataclass
class Proxy:
    """Forwards every call, and injects the faults of the plan."""

    plan: NetworkPlan
    upstream_port: int
    calm: bool = False
    calls: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    _late: set[asyncio.Task[None]] = field(default_factory=set)
    # The event loop refers to tasks weakly: one that waits for an idle connection would be collected.
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a handler until either side ends it."""
        client = HttpConnection(reader, writer, h11.SERVER)
        upstream = Upstream(self.upstream_port)
        self._serving.add(asyncio.current_task())
        try:
            while (request := await client.receive()) is not None:
                if not await self._exchange(request, upstream, client) or not client.next_exchange():
                    break
        except (OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # a handler was killed, the AWS closed an idle connection, or the proxy ends
        finally:
            upstream.close()
            client.close()
            self._serving.discard(asyncio.current_task())

    async def _exchange(self, request: HttpMessage, upstream: Upstream, client: HttpConnection) -> bool:
        """Handle one call; False if the connection is over."""
        self.calls[request.operation] += 1
        fault = None if self.calm else self._fault(request)
        if fault is not None:
            self.injected[fault] += 1
        match fault:
            case NetworkFault.RESET:
                client.reset()
                return False
            case NetworkFault.DROPPED:
                await upstream.ask(request)
                return False
            case NetworkFault.LATE:
                await client.wait_for_close()
                task = asyncio.create_task(self._land_late(request))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return False
            case NetworkFault.THROTTLED | NetworkFault.SERVER_ERROR | NetworkFault.CONFLICT:
                await client.send(error_answer(fault, request))
            case _:
                if fault is NetworkFault.SLOW:
                    await asyncio.sleep(SLOW_SECONDS)
                await client.send(await upstream.ask(request))
        return True

    def _fault(self, request: HttpMessage) -> NetworkFault | None:
        fault = self.plan.fault(request.operation, self.calls[request.operation])
        # Only writes to DynamoDB can have a transaction conflict.
        writes = request.operation in {"UpdateItem", "TransactWriteItems"}
        return fault if writes or fault is not NetworkFault.CONFLICT else None

    async def _land_late(self, request: HttpMessage) -> None:
        await asyncio.sleep(LATE_SECONDS)
        upstream = Upstream(self.upstream_port)
        try:
            await upstream.ask(request)
        except (OSError, h11.RemoteProtocolError):
            pass
        finally:
            upstream.close()

    async def settle(self) -> None:
        """Wait until every late request has landed."""
        if self._late:
            await asyncio.wait(set(self._late))


async def run(plan: NetworkPlan, upstream_port: int) -> None:
    """Serve until standard input ends."""
    proxy = Proxy(plan, upstream_port)
    server = await asyncio.start_server(proxy.serve, HOST, 0)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    _say({"port": server.sockets[0].getsockname()[1]})
    while line := await commands.readline():
        if line.decode().strip() == CALM:
            proxy.calm = True
            await proxy.settle()
        _say({"calls": proxy.calls, "injected": proxy.injected})
    server.close()


def _say(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(NetworkPlan.from_json(json.loads(sys.argv[1])), int(sys.argv[2])))
