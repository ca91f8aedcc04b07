"""HTTP below requests, urllib3 and urllib: a connection whose answers are the explorer's."""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import urllib3.connection

from oneslot.explorer.encoding import from_text, to_text
from oneslot.explorer.world import ApiCall

_CONNECTIONS = (
    (http.client.HTTPConnection, "http"),
    (http.client.HTTPSConnection, "https"),
    (urllib3.connection.HTTPConnection, "http"),
    (urllib3.connection.HTTPSConnection, "https"),
)
_PORTS = {"http": 80, "https": 443}


class Wire:
    """What a connection has in place of a socket: it collects a request, and reads the answer to it."""

    def __init__(self, process: Any, origin: str) -> None:
        self._process, self._origin = process, origin
        self._sent = bytearray()

    def sendall(self, data: Any) -> None:
        """Collect a part of the request."""
        self._sent += data

    def makefile(self, *modes: Any, **options: Any) -> io.BytesIO:
        """Wait for the explorer, and return the answer as it comes over the wire. Raises `TimeoutError`."""
        head, _, body = bytes(self._sent).partition(b"\r\n\r\n")
        self._sent.clear()
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        parameters = {"url": self._origin + path, "headers": headers, "body": body}
        seen = from_text(self._process.wait(ApiCall(to_text([f"http.{method.lower()}", parameters]))))
        if "unanswered" in seen:
            raise TimeoutError("timed out")
        answer = seen["answer"]
        given = {**answer["headers"], "Content-Length": len(answer["body"]), "Connection": "close"}
        status = f"HTTP/1.1 {answer['status']} {http.client.responses.get(answer['status'], '')}"
        text = "\r\n".join([status, *(f"{name}: {value}" for name, value in given.items()), "", ""])
        return io.BytesIO(text.encode("latin-1") + answer["body"])

    def settimeout(self, *_: Any) -> None:
        """Ignore the timeout, because the explorer decides whether a call times out."""

    setsockopt = shutdown = close = settimeout


@contextmanager
def answered(running: Callable[[], Any]) -> Iterator[None]:
    """Give the connections of the process that `running` returns a wire of the explorer."""
    with ExitStack() as stack:
        for kind, scheme in _CONNECTIONS:
            stack.enter_context(mock.patch.object(kind, "connect", _connecting(running, kind.connect, scheme)))
        yield


def _connecting(running: Callable[[], Any], original: Any, scheme: str) -> Any:
    def connect(self: Any) -> None:
        process = running()
        if process is None:
            original(self)
            return
        port = "" if self.port == _PORTS[scheme] else f":{self.port}"
        self.sock = Wire(process, f"{scheme}://{self.host}{port}")
        self.is_verified = True  # as urllib3 knows it after a handshake

    return connect
