"""A host: one poller with its warm handlers, in a process of its own.

The process runs this module: it writes a line when it is ready, and stops when its standard input ends.
"""

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
from oneslot.local.mapping.event_source_mapping import EventSourceMapping

REPOSITORY = Path(__file__).resolve().parents[2]
HEAD_START_SECONDS = 0.3
"""The handlers of a thawed host run this long before its poller wakes and kills those past their deadline."""

STOP_SECONDS = 30.0
"""A host finishes the batches in its hands first."""


class Host:
    """One host. `folder` is for the unpacked function, the logs, and the delivery log of all of its handlers."""

    def __init__(self, connection: Connection, mapping_id: str, folder: Path, processes: int) -> None:
        folder.mkdir(parents=True)
        self.log_file = folder / "consumer.jsonl"
        self._errors = folder / "host.log"
        arguments = [connection.endpoint_url, connection.account, mapping_id, str(folder), str(processes)]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab.soak.hosts", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
                env={**os.environ, **connection.variables, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # Ctrl-C must reach only the run, which then stops its hosts
                text=True,
            )
        if self._process.stdout is None or self._process.stdout.readline() != "ready\n":
            self.close()
            raise OneslotError(f"A host did not start. See the end of {self._errors}.")

    def check(self) -> None:
        """Raise `OneslotError` if its process has ended."""
        if self._process.poll() is not None:
            raise OneslotError(f"A host has ended. See the end of {self._errors}.")

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

    def close(self) -> None:
        """Finish the batches in hand, and end; a host that takes longer than `STOP_SECONDS` is killed."""
        with self._process as process:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def main(endpoint_url: str, account: str, mapping_id: str, folder: str, processes: str) -> None:
    """Poll until standard input ends."""
    connection = Connection(endpoint_url, account, session_token=os.environ["AWS_SESSION_TOKEN"])
    with EventSourceMapping(connection, mapping_id, folder=Path(folder), processes=int(processes)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
