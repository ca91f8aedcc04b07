"""A warm handler process: the deployed function, invoked with a deadline that a kill enforces."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneslot.local.mapping.installation import Installation, modules_of_lambda
from oneslot.runtime.sqs import answer

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
# Lambda gives the init phase 10 s. A laptop that starts all of its processes at once may need longer for the imports,
# and this limit only decides how soon a handler that hangs during its import is reported.
INIT_SECONDS = 300.0


@dataclass(frozen=True)
class Answered:
    """The function returned. answer: JSON text."""

    answer: str


@dataclass(frozen=True)
class FunctionError:
    """The invocation failed as a whole. kind: "exception", "timeout", "crash" or "init"; error_type: a class, and its place."""

    kind: str
    error_type: str


@dataclass(frozen=True)
class Throttled:
    """No process was free: the function was not invoked."""


Outcome = Answered | FunctionError | Throttled


class HandlerProcess:
    """One execution environment, invoked by one thread at a time. It cannot be used after a timeout or a crash."""

    def __init__(self, installation: Installation) -> None:
        """Start the process. It imports the handler while the caller continues."""
        function = installation.function
        log_stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{function.version}]{uuid.uuid4().hex}"
        answers, their_answers = os.pipe()
        settings = {
            "handler": function.handler,
            "answers": their_answers,
            "marshalling": answer.__file__,
            "search_first": [str(installation.code)],
            # Nothing else of this environment: code that the asset lacks must fail here as it does on Lambda.
            "brought": modules_of_lambda(),
            "function": {
                "name": function.name,
                "version": function.version,
                "arn": function.arn,
                "memory_mb": function.memory_mb,
                "log_group": function.log_group,
                "log_stream": log_stream,
            },
        }
        try:
            with installation.log_file.open("ab") as log, installation.error_file.open("ab") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(BOOTSTRAP), json.dumps(settings)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=errors,
                    pass_fds=[their_answers],
                    cwd=installation.code,
                    env=installation.environment(log_stream),
                    start_new_session=True,  # Ctrl-C in the terminal is for the poller, which then stops in order
                    bufsize=0,
                )
        finally:
            os.close(their_answers)
        self._answers = answers
        self._received = b""
        self._ready = False
        assert self._process.stdin is not None  # noqa: S101  PIPE was asked for
        self._requests = self._process.stdin
        os.set_blocking(self._requests.fileno(), False)
        os.set_blocking(self._answers, False)

    @property
    def pid(self) -> int:
        """The process id, for tests that kill it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> FunctionError | None:
        """Wait until the handler is imported; return the error if that fails."""
        if self._ready:
            return None
        try:
            message = self._read_line(time.monotonic() + INIT_SECONDS)
        except TimeoutError:
            return FunctionError("init", "InitTimeout")
        except EOFError:
            return FunctionError("init", "Runtime.ExitError")
        if "init_error" in message:
            return FunctionError("init", message["init_error"])
        self._ready = True
        return None

    def invoke(self, event: dict[str, Any], *, request_id: str, timeout_seconds: float) -> Answered | FunctionError:
        """Invoke the handler with one event. After anything but `Answered` or an "exception", `close` this process."""
        if error := self.wait_until_ready():
            return error
        request = {"request_id": request_id, "event": event, "deadline_ms": int((time.time() + timeout_seconds) * 1000)}
        deadline = time.monotonic() + timeout_seconds
        try:
            rest = memoryview(json.dumps(request).encode() + b"\n")
            while rest:
                _wait_for(self._requests.fileno(), selectors.EVENT_WRITE, deadline)
                with suppress(BlockingIOError):
                    rest = rest[os.write(self._requests.fileno(), rest) :]
            message = self._read_line(deadline)
        except TimeoutError:
            return FunctionError("timeout", "Sandbox.Timedout")
        except (EOFError, BrokenPipeError):
            return FunctionError("crash", "Runtime.ExitError")
        if "error" in message:
            return FunctionError("exception", message["error"]["errorType"])
        return Answered(message["answer"])

    def close(self, grace_seconds: float = 0.0) -> None:
        """End it: close its input, wait that long, then kill it and its children."""
        with suppress(OSError):
            self._requests.close()
        if grace_seconds > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1

    def _read_line(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            _wait_for(self._answers, selectors.EVENT_READ, deadline)
            with suppress(BlockingIOError):
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    raise EOFError
                self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def _wait_for(descriptor: int, event: int, deadline: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, event)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            raise TimeoutError
