"""Warm handler processes: the deployed function, invoked with a deadline that is enforced by kill."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import FunctionConfiguration

RUNTIME = Path(__file__).with_name("handler_process.py")
# Lambda gives the init phase 10 s. A laptop that starts all of its processes at once may need longer for the imports,
# and nothing depends on this limit but how soon a handler that hangs while it is imported is reported.
INIT_SECONDS = 300.0


@dataclass(frozen=True)
class Answered:
    """The function returned: its answer as JSON text."""

    answer: str


@dataclass(frozen=True)
class FunctionError:
    """The invocation failed as a whole. kind: "exception", "timeout", "crash" or "init"; error_type: a class name."""

    kind: str
    error_type: str


@dataclass(frozen=True)
class Throttled:
    """No process was free: the function was not invoked."""


Outcome = Answered | FunctionError | Throttled


@dataclass(frozen=True)
class Installation:
    """A deployed function on this machine's disk, and where its log goes."""

    function: FunctionConfiguration
    code: Path  # the unpacked asset
    connection: Connection  # the AWS that the handler talks to
    log_file: Path  # the handler's standard output is appended here
    error_file: Path  # and its standard error here

    def environment(self, log_stream: str) -> dict[str, str]:
        """Return what a Lambda process finds in its environment, and nothing of this process's own."""
        here = self.connection
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.code),  # no configuration of the person at the keyboard
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "LAMBDA_TASK_ROOT": str(self.code),
            "_HANDLER": self.function.handler,
            "AWS_LAMBDA_FUNCTION_NAME": self.function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": self.function.version,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.function.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": self.function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_REGION": here.region,
            "AWS_DEFAULT_REGION": here.region,
            "AWS_ACCESS_KEY_ID": here.access_key_id,
            "AWS_SECRET_ACCESS_KEY": here.secret_access_key,
            "AWS_ENDPOINT_URL": here.endpoint_url,
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.function.environment,
        }


class HandlerProcess:
    """One execution environment: invoked by one thread at a time; useless after a timeout or a crash."""

    def __init__(self, installation: Installation) -> None:
        """Start the process; it imports the handler while the caller goes on."""
        function = installation.function
        log_stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{function.version}]{uuid.uuid4().hex}"
        answers, their_answers = os.pipe()
        settings = {
            "handler": function.handler,
            "answers": their_answers,
            "search_first": [str(installation.code)],
            # boto3 is part of Lambda's runtime. Of this environment only the folder it lives in is shown, and last:
            # the editable install of this project is not, so code that is missing in the asset is missed here.
            "search_last": [str(Path(boto3.__file__).parent.parent)],
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
                    [sys.executable, "-I", "-S", str(RUNTIME), json.dumps(settings)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=errors,
                    pass_fds=[their_answers],
                    cwd=installation.code,
                    env=installation.environment(log_stream),
                    start_new_session=True,  # Ctrl-C in the terminal is for the poller, which then stops in order
                    bufsize=0,
                )
        except BaseException:
            os.close(answers)
            raise
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
        """The process's id, for a test that kills it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> FunctionError | None:
        """Wait for the handler to be imported; the error if it is not."""
        if self._ready:
            return None
        try:
            message = self._read_line(time.monotonic() + INIT_SECONDS)
        except TimeoutError:
            return FunctionError("init", "InitTimeout")
        except EOFError:
            return FunctionError("init", "Runtime.ExitError")
        if "init_error" in message:
            return FunctionError("init", message["init_error"]["errorType"])
        self._ready = True
        return None

    def invoke(self, event: dict[str, Any], *, request_id: str, timeout_seconds: float) -> Answered | FunctionError:
        """Hand it one event. After anything but `Answered` or an "exception", `close` it and take a new one."""
        if error := self.wait_until_ready():
            return error
        request = {
            "request_id": request_id,
            "event": event,
            "deadline_ms": int((time.time() + timeout_seconds) * 1000),
        }
        deadline = time.monotonic() + timeout_seconds
        try:
            self._write_line(request, deadline)
            message = self._read_line(deadline)
        except TimeoutError:
            return FunctionError("timeout", "Sandbox.Timedout")
        except (EOFError, BrokenPipeError):
            return FunctionError("crash", "Runtime.ExitError")
        if "error" in message:
            return FunctionError("exception", message["error"]["errorType"])
        return Answered(message["answer"])

    def close(self, grace_seconds: float = 0.0) -> None:
        """End it: by closing its input and waiting that long, then by kill, together with its children."""
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

    def _write_line(self, message: dict[str, Any], deadline: float) -> None:
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            _wait_for(self._requests.fileno(), selectors.EVENT_WRITE, deadline)
            with suppress(BlockingIOError):
                rest = rest[os.write(self._requests.fileno(), rest) :]

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


@dataclass
class HandlerPool:
    """At most `size` warm processes of one function, shared by the poller's threads."""

    installation: Installation
    size: int
    _free: list[HandlerProcess] = field(default_factory=list)
    _all: set[HandlerProcess] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def warm(self, count: int) -> FunctionError | None:
        """Start processes until there are that many, and wait until all have imported the handler; the first error, if any.

        One begins. It writes the modules' bytecode, which the others, all at once, would write as well: a third of a start.
        """
        missing = min(count, self.size) - len(self._all)
        return (self._start(1) or self._start(missing - 1)) if missing > 0 else None

    def _start(self, count: int) -> FunctionError | None:
        with self._changed:
            started = [HandlerProcess(self.installation) for _ in range(count)]
            self._all.update(started)
        errors = [process.wait_until_ready() for process in started]
        for process, error in zip(started, errors, strict=True):
            self._give_back(process, usable=error is None)
        return next((error for error in errors if error is not None), None)

    def invoke(self, event: dict[str, Any], *, request_id: str) -> Outcome:
        """Invoke the function in a free process, or in a new one if there is room; else `Throttled` at once."""
        process = self._take()
        if process is None:
            return Throttled()
        usable = False
        try:
            outcome = process.invoke(
                event, request_id=request_id, timeout_seconds=self.installation.function.timeout_seconds
            )
            usable = isinstance(outcome, Answered) or outcome.kind == "exception"
            return outcome
        finally:
            self._give_back(process, usable=usable)

    def pids(self) -> list[int]:
        """Return the ids of the processes that run now, for a test that kills one."""
        with self._changed:
            return sorted(process.pid for process in self._all if process.alive)

    def close(self) -> None:
        """End every process. Invocations must be over: one that runs is cut off."""
        with self._changed:
            processes, self._all, self._free = list(self._all), set(), []
        for process in processes:
            process.close(grace_seconds=1.0)

    def _take(self) -> HandlerProcess | None:
        with self._changed:
            while self._free:
                process = self._free.pop()
                if process.alive:
                    return process
                # It died while idle (somebody killed it): no invocation was in it, so none has failed.
                self._all.discard(process)
                process.close()
            if len(self._all) >= self.size:
                return None
            process = HandlerProcess(self.installation)
            self._all.add(process)
            return process

    def _give_back(self, process: HandlerProcess, *, usable: bool) -> None:
        with self._changed:
            if usable and process in self._all:
                self._free.append(process)
                return
            self._all.discard(process)
        process.close()
