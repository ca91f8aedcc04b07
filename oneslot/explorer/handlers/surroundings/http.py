"""HTTP below requests, urllib3 and urllib: a connection whose answers are the explorer's."""

from __future__ import annotations

import functools
import http.client
import io
from collections.abc import Iterator
from typing import Any

import urllib3.connection

from oneslot.explorer.handlers.surroundings.replaced import Replacement, Running, within
from oneslot.explorer.world import ApiCall, from_text

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
        seen = from_text(self._process.wait(ApiCall.of(f"http.{method.lower()}", parameters)))
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


def answered(running: Running) -> Iterator[Replacement]:
    """Yield what gives the connections of the process that `running` returns a wire of the explorer."""
    for kind, scheme in _CONNECTIONS:
        yield kind, "connect", within(running, functools.partial(_connect, scheme), kind.connect)


def _connect(scheme: str, process: Any, original: Any, connection: Any) -> None:
    port = "" if connection.port == _PORTS[scheme] else f":{connection.port}"
    connection.sock = Wire(process, f"{scheme}://{connection.host}{port}")
    connection.is_verified = True  # as urllib3 knows it after a handshake
