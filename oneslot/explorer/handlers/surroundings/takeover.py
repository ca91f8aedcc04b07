"""Time, ids, random numbers, threads, files and HTTP inside the handler: they are the explorer's.

HTTP is taken over below requests, urllib3 and urllib: by a connection whose answers are the explorer's.
"""

import _posixsubprocess
import _thread
import builtins
import dataclasses
import datetime
import functools
import gc
import http.client
import io
import logging
import multiprocessing.shared_memory
import os
import re
import shutil
import sqlite3
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from types import FunctionType, SimpleNamespace
from typing import Any
from unittest import mock

import boto3.s3.transfer
import urllib3.connection

from oneslot.errors import pip_install
from oneslot.explorer.handlers.surroundings.chance import own_chance
from oneslot.explorer.handlers.surroundings.environment import (
    SUBPROCESS,
    LambdaEnvironments,
    is_installed,
    open_file,
    separate_environments,
)
from oneslot.explorer.handlers.surroundings.replaced import Replacement, Running, replaced, within
from oneslot.explorer.handlers.surroundings.threads import as_strands, own_lock
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall, from_text

try:
    import _time_machine
    import time_machine
except ImportError as error:  # pragma: no cover
    raise NotExplorable(f"The explorer moves the clock with time-machine; run: {pip_install('explorer')}") from error

_TRANSFER: Any = boto3.s3.transfer
_CONNECTIONS = (
    (http.client.HTTPConnection, "http"),
    (http.client.HTTPSConnection, "https"),
    (urllib3.connection.HTTPConnection, "http"),
    (urllib3.connection.HTTPSConnection, "https"),
)
_PORTS = {"http": 80, "https": 443}


def _clock(running: Running) -> Any:
    """Return what time-machine asks for the time: that of the running process, which notes the reading, or the real one."""

    def time_ns() -> int:
        process = running()
        return int(_time_machine.original_time_ns() if process is None else process.read_clock() * 1_000_000)

    return SimpleNamespace(time_ns=time_ns)


def _log_clock(running: Running) -> Any:
    """Return `time` for `logging`: the time of a log line is not an observation of the code."""

    def now() -> float:
        process = running()
        return float(time.time() if process is None else process.now / 1000)

    return SimpleNamespace(**{**vars(time), "time": now, "time_ns": lambda: int(now() * 1e9)})


class Wire:
    """What a connection has in place of a socket: it collects a request, and reads the answer to it."""

    def __init__(self, process: Any, origin: str) -> None:
        self._process, self._origin = process, origin
        self._sent = bytearray()

    def sendall(self, data: Any) -> None:
        """Collect a part of the request."""
        self._sent += data

    def makefile(self, *modes: Any, **options: Any) -> io.BytesIO:
        """Wait for the explorer, and return the answer as it comes over the wire. Raises `TimeoutError`."""
        head, _, body = bytes(self._sent).partition(b"\r\n\r\n")
        self._sent.clear()
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        parameters = {"url": self._origin + path, "headers": headers, "body": body}
        seen = from_text(self._process.wait(ApiCall.of(f"http.{method.lower()}", parameters)))
        if "unanswered" in seen:
            raise TimeoutError("timed out")
        answer = seen["answer"]
        given = {**answer["headers"], "Content-Length": len(answer["body"]), "Connection": "close"}
        status = f"HTTP/1.1 {answer['status']} {http.client.responses.get(answer['status'], '')}"
        text = "\r\n".join([status, *(f"{name}: {value}" for name, value in given.items()), "", ""])
        return io.BytesIO(text.encode("latin-1") + answer["body"])

    def settimeout(self, *_: Any) -> None:
        """Ignore the timeout, because the explorer decides whether a call times out."""

    setsockopt = shutdown = close = settimeout


_THREAD = ("a thread", "Use a ThreadPoolExecutor, or call the function directly")
REFUSED: tuple[tuple[Any, str, str, str], ...] = (
    (threading.Thread, "start", *_THREAD),
    (_thread, "start_new_thread", *_THREAD),
    (os, "mkfifo", "a named pipe", "Let the test replace it"),
    (os, "pipe", "a pipe", "Let the test replace it"),
    (os, "memfd_create", "memory as a file", "Use io.BytesIO"),
    (os, "mknod", "a device", "Let the test replace it"),
    (_posixsubprocess, "fork_exec", *SUBPROCESS),
    (multiprocessing.shared_memory.SharedMemory, "__init__", "shared memory", "Let the test replace it"),
)
"""What no audit event tells of; see `environment` for the rest."""


@contextmanager
def taken_over(running: Running, environment: dict[str, str], own: Sequence[Path] = ()) -> Iterator[None]:
    """Take over what a process perceives beside its calls; leave all else in the interpreter as it is.

    Only this thread runs processes. Another one, such as a library's, keeps the real clock and its own calls. `own` are
    the handler's folders, which it may read where they are.
    """
    if datetime.datetime.__name__ == "FakeDatetime":
        raise NotExplorable(
            "freezegun is active, and the explorer moves the clock itself. Leave freezegun out of this test."
        )
    here, unlimited = get_ident(), running
    running = lambda: unlimited() if get_ident() == here else None  # noqa: E731
    with ExitStack() as stack:
        patch = stack.enter_context
        stack.callback(time.tzset)  # after the variables are back
        patch(mock.patch.dict(os.environ, environment, clear=True))
        time.tzset()
        patch(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        patch(separate_environments(running, own))
        patch(replaced((*_files(), *own_chance(running), *_connections(running), *as_strands(running), *_refused())))
        patch(mock.patch.object(threading, "Lock", own_lock(running)))
        patch(mock.patch.object(tempfile.TemporaryDirectory, "_cleanup", staticmethod(_remove)))
        patch(mock.patch.object(logging, "time", _log_clock(running)))
        # A handler's dataclasses are made again for each environment, and the text of their methods is always the same.
        patch(mock.patch.object(dataclasses, "exec", lambda text, *given: exec(_compiled(text), *given), create=True))  # noqa: S102
        # Hypothesis times each collection of garbage, and the handler would seem to read the clock.
        stack.callback(gc.callbacks.extend, gc.callbacks[:])
        gc.callbacks.clear()
        patch(mock.patch.object(_TRANSFER, "TransferManager", _in_one_thread(running)))
        if not time_machine.traveller_stack:
            _time_machine.patch()
            stack.callback(_time_machine.unpatch)
        time_machine.traveller_stack.append(_clock(running))
        stack.callback(time_machine.traveller_stack.pop)
        yield


_compiled = functools.lru_cache(1_000)(functools.partial(compile, filename="<string>", mode="exec", dont_inherit=True))


def _remove(name: str, delete: bool = True, **_: Any) -> None:
    """Remove a temporary folder that the handler has left, as Python does, but without a warning."""
    if delete:
        shutil.rmtree(name, ignore_errors=True)


def _in_one_thread(running: Running) -> Any:
    """Return S3's transfer manager, which inside the handler moves files without threads of its own."""
    manager = _TRANSFER.TransferManager

    def transfer_manager(client: Any, config: Any, osutil: Any = None, executor_cls: Any = None) -> Any:
        executor = executor_cls if running() is None else _TRANSFER.NonThreadedExecutor
        return manager(client, config, osutil, executor)

    return transfer_manager


def _refused() -> Iterator[Replacement]:
    def acting() -> Any:
        return LambdaEnvironments.current and LambdaEnvironments.current.acting()

    def refuse(what: str, remedy: str, process: Any, *_: Any, **__: Any) -> None:
        process.refuse(f"The handler uses {what}, which the explorer cannot schedule. {remedy}.")

    for owner, name, what, remedy in REFUSED:
        if hasattr(owner, name):
            yield owner, name, within(acting, functools.partial(refuse, what, remedy), getattr(owner, name))


def _connections(running: Running) -> Iterator[Replacement]:
    """Yield what gives the connections of the process that `running` returns a wire of the explorer."""

    def connect(scheme: str, process: Any, original: Any, connection: Any) -> None:
        port = "" if connection.port == _PORTS[scheme] else f":{connection.port}"
        connection.sock = Wire(process, f"{scheme}://{connection.host}{port}")
        connection.is_verified = True  # as urllib3 knows it after a handshake

    for kind, scheme in _CONNECTIONS:
        yield kind, "connect", within(running, functools.partial(connect, scheme), kind.connect)
    # Nothing is verified, and the certificates of a machine take long to read.
    trusted = ssl.SSLContext.set_default_verify_paths
    yield ssl.SSLContext, trusted.__name__, within(running, lambda process, _, context: None, trusted)


_OF_OS = (
    *("access", "chdir", "chmod", "chown", "getxattr", "lchown", "listdir", "listxattr", "lstat", "mkdir", "open"),
    *("pathconf", "readlink", "remove", "removexattr", "rmdir", "scandir", "setxattr", "stat", "statvfs", "truncate"),
    *("unlink", "utime", "link", "rename", "replace", "symlink"),
)
_OPEN = ((builtins, "open"), (io, "open"), (sqlite3, "connect"), (sqlite3.dbapi2, "connect"))
_DATABASE = re.compile("(file:(?://(?:localhost)?)?)?(/.*)", re.DOTALL)
"""The path of an SQLite database, or its URI."""

_CLOSER: Any = tempfile._TemporaryFileCloser  # type: ignore[attr-defined]
_UMASK, _GETCWD = os.umask, os.getcwd
_OPEN_RELATIVE, _CONNECT = os.open, sqlite3.connect
_TWO_PATHS = ("link", "rename", "replace", "symlink")
_NAMED = ("path", "src", "dst", "file", "database")
"""The parameters of these functions that are paths, where they are given by name."""


def _files() -> Iterator[Replacement]:
    """Yield what lets each environment find its own /tmp under its name."""
    of_os: dict[Any, Any] = {}
    for name in filter(functools.partial(hasattr, os), _OF_OS):
        moving = _moving(getattr(os, name), 2 if name in _TWO_PATHS else 1)
        yield os, name, of_os.setdefault(getattr(os, name), moving)
    yield tempfile, _CLOSER.__name__, _moving(_CLOSER, 0)
    yield _CLOSER, "__del__", _close_left
    for method in vars(_CLOSER).values():
        if isinstance(method, FunctionType) and method.__defaults__:  # it deletes by a default value
            yield method, "__defaults__", tuple(of_os.get(one, one) for one in method.__defaults__)
    for owner, name in _OPEN:
        yield owner, name, _moving(getattr(owner, name), 1)
    yield os, "umask", _umask
    yield os, "getcwd", lambda: LambdaEnvironments.current.named(_GETCWD()) if LambdaEnvironments.current else _GETCWD()
    yield os, "fstat", _moving(os.fstat, 0)


def _moving(original: Any, paths: int) -> Any:
    """Return a function whose first `paths` values are paths, in the environment whose code runs."""

    def function(*values: Any, **named: Any) -> Any:
        environments = LambdaEnvironments.current
        if environments is None or environments.process() is None:
            return original(*values, **named)
        moved = environments.moved
        if original is _OPEN_RELATIVE and named.get("dir_fd") is not None:  # which its event does not tell
            values = (str(open_file(named.pop("dir_fd")) / os.fsdecode(values[0])), *values[1:])
        if original is _CONNECT:
            moved = _moved_database(moved)
        values = (*map(moved, values[:paths]), *values[paths:])
        result = original(*values, **{name: moved(one) if name in _NAMED else one for name, one in named.items()})
        if isinstance(result, (io.IOBase, _CLOSER)) and not is_installed(str(getattr(result, "name", ""))):
            environments.opened.add(result)
        return environments.timed(result) if isinstance(result, os.stat_result) else result

    return function


def _close_left(closer: Any) -> None:
    """Close a temporary file that the handler has left. Between invocations, its name would be deleted on this machine."""
    closer.delete &= bool(LambdaEnvironments.current and LambdaEnvironments.current.process())
    with suppress(OSError):
        closer.close()


def _umask(mask: int) -> int:
    process = LambdaEnvironments.current and LambdaEnvironments.current.process()
    if not process:
        return _UMASK(mask)
    before, process.environment.umask = process.environment.umask, mask
    return int(before)


def _moved_database(moved: Any) -> Any:
    """Return a function that moves the path within an SQLite URI, too."""

    def function(database: Any) -> Any:
        found = _DATABASE.fullmatch(os.fsdecode(database))
        return database if found is None else f"{found[1] or ''}{moved(found[2])}"

    return function
