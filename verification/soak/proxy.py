"""The bad network: a proxy on loopback between the handlers and the embedded AWS. Run as a module, by `proxy_process`.

A process of its own, so that neither the poller nor the load generator waits for it. Standard output: a first line with
its port, then one line with its counts for each line of standard input; `calm` there ends the faults, its end the proxy.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from dataclasses import dataclass, field

from verification.soak.http_messages import HttpMessage, error_answer, read_message
from verification.soak.plan import NetworkFault, NetworkPlan

HOST = "127.0.0.1"
# After the client has given up, so that it lands behind its retry.
LATE_SECONDS = 0.5
SLOW_SECONDS = 0.3
CALM = "calm"
_LONGEST_MESSAGE = 8 * 1024 * 1024
# A connection closed with this option is reset, where it would otherwise end in good order (man 7 socket, SO_LINGER).
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Upstream:
    """One connection to the embedded AWS, opened when it is first needed."""

    port: int
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def ask(self, request: HttpMessage) -> HttpMessage:
        """Send a request and return its answer. Raises `OSError` if the connection breaks."""
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self.close()
            self._reader, self._writer = await asyncio.open_connection(HOST, self.port, limit=_LONGEST_MESSAGE)
        self._writer.write(request.head + request.body)
        answer = await read_message(self._reader)
        if answer is None:
            raise ConnectionResetError
        return answer

    def close(self) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()


@dataclass
class Proxy:
    """Forwards every call, and does to it what the plan says."""

    plan: NetworkPlan
    upstream_port: int
    calm: bool = False
    calls: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    _late: set[asyncio.Task[None]] = field(default_factory=set)
    # The event loop refers to tasks weakly: one that waits for an idle connection would be collected, and hang it.
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a handler's until either side ends it."""
        upstream = Upstream(self.upstream_port)
        self._serving.add(asyncio.current_task())
        try:
            while (request := await read_message(reader)) is not None:
                if not await self._exchange(request, upstream, reader, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # a handler was killed, the AWS closed an idle connection, or the proxy ends
        finally:
            upstream.close()
            writer.close()
            self._serving.discard(asyncio.current_task())

    async def _exchange(
        self, request: HttpMessage, upstream: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Handle one call; False if the connection is over."""
        self.calls[request.operation] += 1
        fault = None if self.calm else self._fault(request)
        if fault is not None:
            self.injected[fault] += 1
        match fault:
            case NetworkFault.RESET:
                connection: socket.socket = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                return False
            case NetworkFault.DROPPED:
                await upstream.ask(request)
                return False
            case NetworkFault.LATE:
                await reader.read()  # until the client gives up and closes
                task = asyncio.create_task(self._land_late(request))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return False
            case NetworkFault.THROTTLED | NetworkFault.SERVER_ERROR | NetworkFault.CONFLICT:
                writer.write(error_answer(fault, request))
            case _:
                if fault is NetworkFault.SLOW:
                    await asyncio.sleep(SLOW_SECONDS)
                answer = await upstream.ask(request)
                writer.write(answer.head + answer.body)
        await writer.drain()
        return True

    def _fault(self, request: HttpMessage) -> NetworkFault | None:
        fault = self.plan.fault(request.operation, self.calls[request.operation])
        # Reads and SQS know no transaction conflict.
        writes = request.operation in {"UpdateItem", "TransactWriteItems"}
        return fault if writes or fault is not NetworkFault.CONFLICT else None

    async def _land_late(self, request: HttpMessage) -> None:
        await asyncio.sleep(LATE_SECONDS)
        upstream = Upstream(self.upstream_port)
        try:
            await upstream.ask(request)
        except (OSError, asyncio.IncompleteReadError):
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
    server = await asyncio.start_server(proxy.serve, HOST, 0, limit=_LONGEST_MESSAGE)
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
