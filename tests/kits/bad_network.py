"""A bad network for real clients: a proxy on loopback that loses, delays and refuses the calls that a test names."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

LATE_SECONDS = 0.5
"""Counted from the client's timeout, so that the request lands after its retry."""


class Fault(StrEnum):
    """A fault of one call."""

    RESET = "reset"  # the connection ends before the service sees the request
    DROPPED = "dropped"  # the service has acted, and its answer is lost
    LATE = "late"  # the request reaches the service after the client's timeout and its retry
    THROTTLED = "ProvisionedThroughputExceededException"
    SERVER_ERROR = "InternalServerError"
    CONFLICT = "TransactionCanceledException"


class BadNetwork:
    """`with BadNetwork(account.endpoint_url, {("Query", 3): Fault.LATE}) as network: ... network.endpoint_url`.

    `script` names calls by operation and number, from 1. `injected` counts the faults that have happened.
    """

    def __init__(self, upstream_url: str, script: Mapping[tuple[str, int], Fault]) -> None:
        self.upstream = urlsplit(upstream_url).netloc
        self.calls: Counter[str] = Counter()
        self.injected: Counter[Fault] = Counter()
        self.landed = threading.Semaphore(0)
        self._script, self._lock = script, threading.Lock()
        exchange = type("Exchange", (_Exchange,), {"network": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), exchange)
        self.endpoint_url = f"http://127.0.0.1:{self._server.server_port}"

    def meet(self, operation: str) -> Fault | None:
        """Count a call, and return its fault."""
        with self._lock:
            self.calls[operation] += 1
            fault = self._script.get((operation, self.calls[operation]))
            if fault is not None:
                self.injected[fault] += 1
            return fault

    def settle(self) -> None:
        """Wait until every late request has landed."""
        for _ in range(self.injected[Fault.LATE]):
            assert self.landed.acquire(timeout=60)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="bad network", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Exchange(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    network: ClassVar[BadNetwork]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        match self.network.meet(operation):
            case None:
                self._answer(*self._forward(body))
            case Fault.RESET:
                self.close_connection = True
            case Fault.DROPPED:
                self._forward(body)
                self.close_connection = True
            case Fault.LATE:
                self.connection.recv(1)  # ends when the client closes
                self.close_connection = True
                time.sleep(LATE_SECONDS)
                self._forward(body)
                self.network.landed.release()
            case refused:
                status = 500 if refused is Fault.SERVER_ERROR else 400
                self._answer(status, {"Content-Type": "application/x-amz-json-1.0"}, _error(refused, body))

    def _forward(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        upstream = HTTPConnection(self.network.upstream)
        try:
            upstream.request("POST", self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            upstream.close()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


def _error(fault: Fault, body: bytes) -> bytes:
    """Return the error's document. In a conflict the first item, the ledger's row, is in another transaction."""
    document: dict[str, Any] = {"__type": f"com.amazonaws.dynamodb.v20120810#{fault}", "message": "injected"}
    if fault is Fault.CONFLICT:
        others = [{"Code": "None"} for _ in json.loads(body)["TransactItems"][1:]]
        document["CancellationReasons"] = [{"Code": "TransactionConflict"}, *others]
    return json.dumps(document).encode()
