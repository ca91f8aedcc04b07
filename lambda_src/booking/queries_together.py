"""Several DynamoDB queries at once, from one thread and without botocore's client around each.

A group reads the free slots of each of its practices, ten queries for ten. By the client each has a thread, which Python wakes
and lets run in its turn, endpoint rules, events, and an answer that is parsed by a model: most of a batch's CPU
(docs/performance.md). Here all are written, each on a connection of its own, and then all are read. Credentials, signature,
certificates and timeouts stay botocore's; HTTP is Python's.

Only for reads: whatever is not a plain, whole answer is left to the client, which asks again, with its retries and errors.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import get_cert_path
from urllib3.util import wait_for_read

logger = logging.getLogger(__name__)

OK = 200
UNANSWERED = (OSError, HTTPException, ValueError)
"""What comes of a connection that fails, of a server that refuses, and of an answer that is not whole."""


class QueriesTogether:
    """Callable: what `client.query` takes, several times → the answers in the same order; None where the client must be asked.

    Threads take turns. Made once: its connections stay open.
    """

    def __init__(
        self, client: Any, credentials: Credentials, connections: int, executor: Executor | None = None
    ) -> None:
        """Take endpoint, region and timeouts from a DynamoDB client of botocore's, and open at most so many connections.

        `executor` opens those that are not open side by side; None: one after the other.
        """
        meta = client.meta
        self._url = meta.endpoint_url
        self._region = meta.region_name
        self._connect_timeout, self._read_timeout = meta.config.connect_timeout, meta.config.read_timeout
        self._credentials = credentials
        self._executor = executor
        metadata = meta.service_model.metadata
        self._signing_name = meta.service_model.signing_name
        self._headers = {
            "Host": urlsplit(self._url).netloc,
            "X-Amz-Target": f"{metadata['targetPrefix']}.Query",
            "Content-Type": f"application/x-amz-json-{metadata['jsonVersion']}",
            "User-Agent": meta.config.user_agent,
        }
        trusted = None
        if urlsplit(self._url).scheme == "https":
            trusted = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or get_cert_path(verify=True))
        self._connections = [self._connection(trusted) for _ in range(connections)]
        weakref.finalize(self, _close_all, self._connections)  # with it, as the client's are
        self._lock = Lock()

    def _connection(self, trusted: ssl.SSLContext | None) -> HTTPConnection:
        host, port = urlsplit(self._url).hostname or "", urlsplit(self._url).port
        if trusted is None:
            return HTTPConnection(host, port, timeout=self._connect_timeout)
        return HTTPSConnection(host, port, timeout=self._connect_timeout, context=trusted)

    def __call__(self, queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Ask all. What was not answered is logged as a warning, by codes and classes, and not raised."""
        answers: list[Mapping[str, Any] | None] = []
        causes: list[str] = []
        with self._lock:
            signer = SigV4Auth(self._credentials.get_frozen_credentials(), self._signing_name, self._region)
            for start in range(0, len(queries), len(self._connections)):
                answers += self._ask(queries[start : start + len(self._connections)], signer, causes)
        if causes:
            said = ", ".join(sorted(set(causes)))
            logger.warning("%d of %d queries are left to the client: %s", len(causes), len(queries), said)
        return answers

    def _ask(
        self, queries: Sequence[Mapping[str, Any]], signer: SigV4Auth, causes: list[str]
    ) -> list[Mapping[str, Any] | None]:
        connections = self._connections[: len(queries)]
        opened = self._open(connections, causes)
        sent = [
            is_open and self._send(connection, query, signer, causes)
            for connection, query, is_open in zip(connections, queries, opened, strict=True)
        ]
        # Of all: one that hangs must not add its own time to the next one's.
        deadline = time.monotonic() + self._read_timeout
        return [
            self._receive(connection, deadline, causes) if is_sent else None
            for connection, is_sent in zip(connections, sent, strict=True)
        ]

    def _open(self, connections: Sequence[HTTPConnection], causes: list[str]) -> list[bool]:
        """Whether each is open now. Nothing is sent on one that is not: each attempt may take the whole timeout."""
        for connection in connections:
            if connection.sock is not None and not self._is_usable(connection):
                connection.close()

        def is_open(connection: HTTPConnection) -> bool:
            try:
                if connection.sock is None:
                    connection.connect()
            except UNANSWERED as error:
                _give_up(connection, error, causes)
                return False
            return True

        if self._executor and any(connection.sock is None for connection in connections):
            return list(self._executor.map(is_open, connections))
        return [is_open(connection) for connection in connections]

    def _is_usable(self, connection: HTTPConnection) -> bool:
        try:
            connection.sock.settimeout(self._read_timeout)  # what was left of the last deadline does not hold
            return not wait_for_read(connection.sock, timeout=0)  # before anything was asked: the other side closed it
        except UNANSWERED:  # an interrupt left half a connection
            return False

    def _send(self, connection: HTTPConnection, query: Mapping[str, Any], signer: SigV4Auth, causes: list[str]) -> bool:
        request = AWSRequest("POST", self._url, self._headers, json.dumps(query).encode())
        signer.add_auth(request)
        try:
            connection.request("POST", "/", request.data, dict(request.headers))
        except UNANSWERED as error:
            _give_up(connection, error, causes)
            return False
        return True

    def _receive(self, connection: HTTPConnection, deadline: float, causes: list[str]) -> Mapping[str, Any] | None:
        try:
            connection.sock.settimeout(max(0.001, deadline - time.monotonic()))
            response = connection.getresponse()
            return _answer(response.status, response.getheader("x-amz-crc32"), response.read())
        except UNANSWERED as error:
            _give_up(connection, error, causes)
            return None


def _answer(status: int, checksum: str | None, body: bytes) -> Mapping[str, Any]:
    if status != OK:
        raise HTTPException(status)
    if checksum is not None and int(checksum) != crc32(body):  # as botocore does it for DynamoDB
        raise ValueError(checksum)
    answer: Mapping[str, Any] = json.loads(body)
    return answer


def _give_up(connection: HTTPConnection, error: Exception, causes: list[str]) -> None:
    # An answer that comes later must not be taken for the next query's.
    connection.close()
    causes.append(f"HTTP {error}" if type(error) is HTTPException else type(error).__name__)


def _close_all(connections: Iterable[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()
