"""A child process of the soak, which answers each line of its standard input with a JSON line."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oneslot.errors import OneslotError

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWER_SECONDS = 120.0  # a host imports its handlers first, perhaps on a busy machine
STOP_SECONDS = 30.0  # a host finishes the batches in its hands first


class ChildFailed(OneslotError):
    """A child process did not start, or it exited."""


class Child:
    """One child process. It ends with its standard input, so it cannot outlive its parent."""

    def __init__(self, module: str, *arguments: str, log_file: Path) -> None:
        """module: run with `python -m`. log_file: for its standard error, appended."""
        self._log_file = log_file
        self._lock = threading.Lock()
        with log_file.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # Ctrl-C must reach only the run, which then stops its children
                text=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def read(self) -> dict[str, Any]:
        """Return its next line. Raises `ChildFailed` if it has exited, or is silent for `ANSWER_SECONDS`."""
        assert self._process.stdout is not None  # noqa: S101  PIPE was asked for; this tells mypy
        # It writes one line for each request, so no second line waits in the buffer, where `select` cannot see it.
        if not select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
            raise ChildFailed(f"A child process has not answered for {ANSWER_SECONDS:.0f} s. See {self._log_file}.")
        line = self._process.stdout.readline()
        if not line:
            raise ChildFailed(f"A child process exited. See the end of {self._log_file}.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, command: str) -> dict[str, Any]:
        """Send a line and return its answer."""
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101  PIPE was asked for; this tells mypy
            try:
                self._process.stdin.write(command + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise ChildFailed(f"A child process exited. See the end of {self._log_file}.") from None
            return self.read()

    def kill(self) -> None:
        """End it with SIGKILL and collect it."""
        self._process.kill()
        self._collect()

    def stop(self) -> None:
        """Close its input and wait for its end; kill it if that takes longer than `STOP_SECONDS`."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._collect()

    def _collect(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
