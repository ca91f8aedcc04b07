"""The program of a handler process, in place of the Lambda runtime. `handler_process` runs it as a script.

It imports the standard library only, so that the handler sees the packages of its own asset first. Requests arrive as
JSON lines on standard input, and answers leave on a pipe of their own, because standard output is the function's log.
"""

import importlib
import io
import json
import os
import queue
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any


class LineWriter(io.TextIOBase):
    """Standard output that writes whole lines, to each descriptor with one call.

    Several processes append to one log file. Python's own buffer flushes when it is full, in the middle of a line.
    """

    encoding = "utf-8"

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors
        self._lock = threading.Lock()
        self._rest = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptors[0]

    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, self._rest = (self._rest + text).rpartition("\n")
            for descriptor in self._descriptors if newline else ():
                os.write(descriptor, (lines + newline).encode("utf-8", "backslashreplace"))
        return len(text)


class BootstrapContext:
    """Lambda's context object. deadline_ms: wall-clock, epoch milliseconds, as on Lambda."""

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


class ModulesOfLambda:
    """Finds what Lambda's runtime brings, after the asset and in its own folders."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return PathFinder.find_spec(name, [self._folders[name]], target) if name in self._folders else None


def load(handler: str) -> Callable[[Any, BootstrapContext], Any]:
    """Import the handler named "package.module.function"."""
    module, _, function = handler.rpartition(".")
    loaded = getattr(importlib.import_module(module.replace("/", ".")), function)
    if not callable(loaded):
        raise TypeError(f"{handler} is not callable")
    return loaded  # type: ignore[no-any-return]  # the name in the configuration promises a handler


def name_with_place(error: BaseException) -> str:
    """Return an error's class, with the last file and line of the function's asset, outside Oneslot if there is one."""
    read = [(str(error.filename), error.lineno)] if isinstance(error, SyntaxError) else []
    places = [*((frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)), *read]
    own = [(os.path.relpath(file), line) for file, line in places if Path.cwd() in Path(file).parents]
    own = [each for each in own if not each[0].startswith("oneslot/")] or own
    return f"{type(error).__name__} in {own[-1][0]}, line {own[-1][1]}" if own else type(error).__name__


def describe(error: BaseException, request_id: str | None) -> dict[str, Any]:
    """Return the error as Lambda reports it, and log it in Lambda's JSON format."""
    described = {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }
    print(json.dumps({"level": "ERROR", "message": "The function failed.", **described}))  # noqa: T201  a log line
    return described


def invoke(
    handler: Callable[[Any, BootstrapContext], Any],
    function: dict[str, Any],
    request: dict[str, Any],
    encoded: Callable[[Any], str],
) -> dict[str, Any]:
    """Run the handler once; return the message for `handler_process`."""
    request_id = request["request_id"]
    try:
        answer = handler(request["event"], BootstrapContext(function, request_id, request["deadline_ms"]))
        return {"request_id": request_id, "answer": encoded(answer)}
    except Exception as error:  # the handler's error is the answer
        return {"request_id": request_id, "error": describe(error, request_id)}


def requests(descriptor: int) -> queue.SimpleQueue[dict[str, Any]]:
    """Read requests in a thread of its own. End the process when its parent is gone, whatever the handler does."""
    received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                received.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return received


def main(settings: dict[str, Any]) -> None:
    """Load the handler, report it, then serve requests until standard input ends."""
    # The handler gets an empty standard input, and its children do not inherit the pipes.
    received = requests(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.set_inheritable(settings["answers"], False)
    sys.stdout = LineWriter(1)
    # By its path: the name `oneslot` is the asset's, which may have another version of it.
    encoded = runpy.run_path(settings["marshalling"])["encoded"]
    sys.path[:0] = settings["search_first"]
    sys.meta_path.append(ModulesOfLambda(settings["brought"]))

    def answer(message: dict[str, Any]) -> None:
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            rest = rest[os.write(settings["answers"], rest) :]

    try:
        handler = load(settings["handler"])
    except BaseException as error:  # SystemExit during the import is an init error too
        describe(error, None)
        answer({"init_error": name_with_place(error)})
        return
    answer({"ready": True})
    while True:
        answer(invoke(handler, settings["function"], received.get(), encoded))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
