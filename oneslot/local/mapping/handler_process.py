"""The inside of a handler process: what the Lambda runtime does around a Python handler. Run as a script, by the invoker.

It imports the standard library only, so that the handler sees the packages of its own asset first. Requests come as
JSON lines on standard input, answers leave as JSON lines on a pipe of their own: standard output is the function's log.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any


class LineWriter(io.TextIOBase):
    """Standard output that writes whole lines, each with one call.

    Several handler processes append to one log file. Python's own buffer flushes wherever it happens to be full, and
    would interleave halves of lines.
    """

    encoding = "utf-8"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._rest = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, self._rest = (self._rest + text).rpartition("\n")
            if newline:
                os.write(self._descriptor, (lines + newline).encode("utf-8", "backslashreplace"))
        return len(text)


class Context:
    """Lambda's context object. Times are wall-clock, as on Lambda: the deadline is given in epoch milliseconds."""

    identity = None
    client_context = None

    def __init__(self, function: dict[str, Any], request_id: str, deadline_ms: int) -> None:
        self.function_name = function["name"]
        self.function_version = function["version"]
        self.invoked_function_arn = function["arn"]
        self.memory_limit_in_mb = str(function["memory_mb"])  # a string on Lambda too
        self.log_group_name = function["log_group"]
        self.log_stream_name = function["log_stream"]
        self.aws_request_id = request_id
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._deadline_ms - int(time.time() * 1000))


def load(handler: str) -> Callable[[Any, Context], Any]:
    """Import "package.module.function"."""
    module, _, function = handler.rpartition(".")
    loaded = getattr(importlib.import_module(module.replace("/", ".")), function)
    if not callable(loaded):
        raise TypeError(f"{handler} is not callable")
    return loaded  # type: ignore[no-any-return]  # who names a handler says what it is


def describe(error: BaseException, request_id: str | None) -> dict[str, Any]:
    """Return the error as Lambda reports it, and write it to the log as Lambda's JSON log format does."""
    described = {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }
    print(json.dumps({"level": "ERROR", "message": "the function failed", **described}))  # noqa: T201  a log line
    return described


def invoke(handler: Callable[[Any, Context], Any], function: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run the handler once; return the message for the invoker."""
    request_id = request["request_id"]
    try:
        answer = handler(request["event"], Context(function, request_id, request["deadline_ms"]))
        return {"request_id": request_id, "answer": json.dumps(answer)}
    except Exception as error:  # whatever the handler raises is the answer
        return {"request_id": request_id, "error": describe(error, request_id)}


def requests(descriptor: int) -> queue.SimpleQueue[dict[str, Any]]:
    """Read requests in a thread of its own; end the process the moment the invoker is gone, whatever the handler does."""
    received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                received.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return received


def main(settings: dict[str, Any]) -> None:
    """Load the handler, say so, then serve one request after the other until standard input ends."""
    # The handler gets an empty standard input and cannot pass the pipes on to children of its own.
    received = requests(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.set_inheritable(settings["answers"], False)
    sys.stdout = LineWriter(1)
    sys.path[:0] = settings["search_first"]
    sys.path += settings["search_last"]

    def answer(message: dict[str, Any]) -> None:
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            rest = rest[os.write(settings["answers"], rest) :]

    try:
        handler = load(settings["handler"])
    except BaseException as error:  # SystemExit while importing is an init error as well
        answer({"init_error": describe(error, None)})
        return
    answer({"ready": True})
    while True:
        answer(invoke(handler, settings["function"], received.get()))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
