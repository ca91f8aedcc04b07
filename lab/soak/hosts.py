"""Hosts from outside: start, freeze, kill and replace them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from oneslot.errors import OneslotError
from oneslot.local.aws.connection import Connection

REPOSITORY = Path(__file__).resolve().parents[2]
HEAD_START_SECONDS = 0.3
"""The handlers of a thawed host run this long before its poller wakes and kills those past their deadline."""

STOP_SECONDS = 30.0
"""A host finishes the batches in its hands first."""


class Host:
    """One host. `lose` replaces its process.

    `folder` is for the unpacked function and the logs. It outlives the process.
    """

    def __init__(self, connection: Connection, mapping_id: str, folder: Path, processes: int) -> None:
        self._folder, self._connection = folder, connection
        self._arguments = [connection.endpoint_url, connection.account, mapping_id, str(folder), str(processes)]
        folder.mkdir(parents=True, exist_ok=True)
        self._process = self._start()

    @property
    def log_file(self) -> Path:
        """The delivery log of all handlers of this host, earlier ones included."""
        return self._folder / "consumer.jsonl"

    def check(self) -> None:
        """Raise `OneslotError` if its process has ended."""
        if self._process.poll() is not None:
            raise OneslotError(f"A host has ended. See the end of {self._folder / 'host.log'}.")

    def handlers(self) -> list[int]:
        """Return the process ids of its handlers."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return sorted(int(pid) for thread in threads for pid in thread.read_text().split())

    def kill_handler(self, chosen: float) -> bool:
        """SIGKILL one handler, picked by a number from 0 to 1; False if there is none."""
        handlers = self.handlers()
        if handlers:
            _signal([handlers[int(chosen * len(handlers))]], signal.SIGKILL)
        return bool(handlers)

    def freeze(self, seconds: float) -> None:
        """Stop poller and handlers together, like a suspended host, and continue them later."""
        handlers = self.handlers()
        try:
            _signal([self._process.pid, *handlers], signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            _signal(handlers, signal.SIGCONT)
            time.sleep(HEAD_START_SECONDS)
            _signal([self._process.pid], signal.SIGCONT)

    def lose(self) -> None:
        """SIGKILL the poller and start a new one. Its handlers end with it."""
        with self._process as process:
            process.kill()
        self._process = self._start()

    def close(self) -> None:
        """Finish the batches in hand, and end; a host that takes longer than `STOP_SECONDS` is killed."""
        with self._process as process:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self) -> subprocess.Popen[str]:
        log = self._folder / "host.log"
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.soak.host", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
                env={**os.environ, **self._connection.variables, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # Ctrl-C must reach only the run, which then stops its hosts
                text=True,
            )
        if process.stdout is None or process.stdout.readline() != "ready\n":
            process.kill()
            process.wait()
            raise OneslotError(f"A host did not start. See the end of {log}.")
        return process


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
