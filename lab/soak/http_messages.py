"""HTTP messages between an AWS SDK and the embedded AWS, and the errors that the proxy answers with. h11 parses them."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from http import HTTPStatus

import h11

from lab.soak.plan import NetworkFault

_CHUNK = 1 << 16
# A connection that is closed with this option is reset rather than ended in good order (man 7 socket, SO_LINGER).
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class HttpMessage:
    """A request or a response, with its body."""

    head: h11.Request | h11.Response
    body: bytes

    def header(self, name: bytes) -> str:
        """Return a header's value by its name in lower case; empty if it is missing."""
        return next((value.decode("latin-1") for each, value in self.head.headers if each == name), "")

    @property
    def operation(self) -> str:
        """The AWS operation of a request in one of AWS's JSON protocols, e.g. "UpdateItem"."""
        return self.header(b"x-amz-target").rpartition(".")[2]

    @property
    def is_dynamodb(self) -> bool:
        """Whether the request is for DynamoDB."""
        return self.header(b"x-amz-target").startswith("DynamoDB")


class HttpConnection:
    """One side of a connection: messages are received and sent in turn."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: type[h11.CLIENT | h11.SERVER]):
        """role: `h11.SERVER` to receive requests, `h11.CLIENT` to send them."""
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(role)

    async def receive(self) -> HttpMessage | None:
        """Return the next message, or None if the peer has closed. Raises `OSError` or `h11.RemoteProtocolError`."""
        head: h11.Request | h11.Response | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            match event:
                case h11.NEED_DATA:
                    self._http.receive_data(await self._reader.read(_CHUNK))
                case h11.Request() | h11.Response():
                    head = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage() if head is not None:
                    return HttpMessage(head, bytes(body))
                case h11.ConnectionClosed() | h11.PAUSED:
                    return None

    async def send(self, message: HttpMessage) -> None:
        """Send a message. Raises `OSError` if the connection breaks."""
        for event in (message.head, h11.Data(message.body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()

    def next_exchange(self) -> bool:
        """Prepare for the next request and response; False if the connection cannot be used again."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE or self._reader.at_eof():
            return False
        self._http.start_next_cycle()
        return True

    async def wait_for_close(self) -> None:
        """Wait until the peer closes."""
        await self._reader.read()

    def reset(self) -> None:
        """Let `close` reset the connection."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def close(self) -> None:
        """Close it."""
        self._writer.close()


def error_answer(fault: NetworkFault, request: HttpMessage) -> HttpMessage:
    """Return the error for THROTTLED, SERVER_ERROR or CONFLICT, as the requested service words it."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR if fault is NetworkFault.SERVER_ERROR else HTTPStatus.BAD_REQUEST
    document: dict[str, object] = {"message": "injected"}
    if fault is NetworkFault.SERVER_ERROR:
        code = "InternalServerError"
    elif fault is NetworkFault.THROTTLED:
        code = "ProvisionedThroughputExceededException" if request.is_dynamodb else "RequestThrottled"
    elif request.operation == "TransactWriteItems":
        # The first item is the ledger's row, where two consumers of one message conflict.
        code = "TransactionCanceledException"
        rest = [{"Code": "None"} for _ in json.loads(request.body)["TransactItems"][1:]]
        document["CancellationReasons"] = [{"Code": "TransactionConflict"}, *rest]
    else:
        code = "TransactionConflictException"
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **document}).encode()
    headers = [
        ("Content-Type", "application/x-amz-json-1.0"),
        ("x-amzn-errortype", code),
        ("Content-Length", str(len(body))),
    ]
    return HttpMessage(h11.Response(status_code=status.value, headers=headers, reason=status.phrase), body)
