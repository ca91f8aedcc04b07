"""A Valkey or Redis server for one test: a child process on loopback, with its data in a temporary folder."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
import redis

SERVERS = ("valkey-server", "redis-server")
START_SECONDS = 120.0
HIGHEST_PORT = 65_536 - 10_000  # a cluster's nodes talk on the port above by 10,000
ADVICE = "Valkey and Redis are not on PATH. On Debian and Ubuntu: sudo make valkey."


def find_server() -> str:
    """Return the server's program. Without one, skip the test, or fail it where `CI` is set."""
    for name in SERVERS:
        if found := shutil.which(name):
            return found
    if os.environ.get("CI"):
        pytest.fail(ADVICE)
    pytest.skip(ADVICE)


class ValkeyServer:
    """One server. If `durable`, each write is on disk before the answer. options: of its configuration."""

    def __init__(self, folder: Path, *, durable: bool = False, **options: str) -> None:
        self._program = find_server()
        self._folder = folder
        self._durable = durable
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def client(self) -> redis.Redis:
        """Return a new client."""
        return redis.Redis(
            port=self.port, host="127.0.0.1", decode_responses=True, socket_timeout=2, socket_connect_timeout=2
        )

    def start(self) -> None:
        """Start the server on the data of its folder, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port = HIGHEST_PORT
        while self.port >= HIGHEST_PORT:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        self.restart()

    def restart(self) -> None:
        """Start it on the port that it had."""
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "appendonly": "yes" if self._durable else "no",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            **{name.replace("_", "-"): value for name, value in self._options.items()},
        }
        command = [self._program, *(text for name, value in options.items() for text in (f"--{name}", str(value)))]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        client = self.client()
        while True:
            try:
                client.ping()
            except (redis.ConnectionError, redis.BusyLoadingError):
                assert time.monotonic() < deadline, (self._folder / "server.log").read_text()
                time.sleep(0.02)
            else:
                client.close()
                return

    def freeze(self) -> None:
        """Stop the process with SIGSTOP: connections open, and nothing is answered."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the server with SIGKILL. Data that is not on disk is lost."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
