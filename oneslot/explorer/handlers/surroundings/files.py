"""Files by name inside the handler: /tmp is the one of its environment, and other names are what they are."""

from __future__ import annotations

import builtins
import io
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

from oneslot.explorer.handlers.surroundings.environment import LambdaEnvironments, open_file
from oneslot.explorer.handlers.surroundings.replaced import Replacement

_OF_OS = (
    *("access", "chdir", "chmod", "chown", "getxattr", "lchown", "listdir", "listxattr", "lstat", "mkdir", "open"),
    *("pathconf", "readlink", "remove", "removexattr", "rmdir", "scandir", "setxattr", "stat", "statvfs", "truncate"),
    *("unlink", "utime", "link", "rename", "replace", "symlink"),
)
_OPEN = ((builtins, "open"), (io, "open"), (sqlite3, "connect"), (sqlite3.dbapi2, "connect"))
_DATABASE = re.compile("(file:(?://(?:localhost)?)?)?(/.*)", re.DOTALL)
"""The path of an SQLite database, or its URI."""

_UMASK, _GETCWD = os.umask, os.getcwd
_OPEN_RELATIVE, _CONNECT = os.open, sqlite3.connect
_TWO_PATHS = ("link", "rename", "replace", "symlink")
_NAMED = ("path", "src", "dst", "file", "database")
"""The parameters of these functions that are paths, where they are given by name."""


def own_files() -> Iterator[Replacement]:
    """Yield what lets each environment find its own /tmp under its name."""
    of_os: dict[Any, Any] = {}
    for name in filter(partial(hasattr, os), _OF_OS):
        moving = _moving(getattr(os, name), 2 if name in _TWO_PATHS else 1)
        yield os, name, of_os.setdefault(getattr(os, name), moving)
    for method in vars(tempfile._TemporaryFileCloser).values():  # type: ignore[attr-defined]
        if isinstance(method, FunctionType) and method.__defaults__:  # it deletes by a default value
            yield method, "__defaults__", tuple(of_os.get(one, one) for one in method.__defaults__)
    for owner, name in _OPEN:
        yield owner, name, _moving(getattr(owner, name), 1)
    yield os, "umask", _umask
    yield os, "getcwd", _working_directory
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
        return environments.timed(result) if isinstance(result, os.stat_result) else result

    return function


def _working_directory() -> str:
    return _GETCWD() if LambdaEnvironments.current is None else LambdaEnvironments.current.named(_GETCWD())


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
