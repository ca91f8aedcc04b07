"""Files by name inside the handler: /tmp is the one of its environment, and other names are what they are."""

from __future__ import annotations

import builtins
import io
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

from oneslot.explorer.handlers.environment import Environments
from oneslot.explorer.handlers.replaced import Replacement

_OF_OS = (
    *("access", "chmod", "chown", "getxattr", "lchown", "listdir", "listxattr", "lstat", "mkdir", "open", "pathconf"),
    *("readlink", "remove", "removexattr", "rmdir", "scandir", "setxattr", "stat", "statvfs", "truncate", "unlink"),
    *("utime", "link", "rename", "replace", "symlink"),
)
_OPEN = ((builtins, "open"), (io, "open"), (sqlite3, "connect"), (sqlite3.dbapi2, "connect"))
_UMASK = os.umask
_TWO_PATHS = ("link", "rename", "replace", "symlink")
_NAMED = ("path", "src", "dst", "file", "database")
"""The parameters of these functions that are paths, where they are given by name."""


def own_files() -> Iterator[Replacement]:
    """Yield what lets each environment find its own /tmp under its name."""
    for name in _OF_OS:
        if hasattr(os, name):
            yield os, name, _moving(getattr(os, name), 2 if name in _TWO_PATHS else 1)
    for owner, name in _OPEN:
        yield owner, name, _moving(getattr(owner, name), 1)
    yield os, "umask", _umask
    yield os, "fstat", _moving(os.fstat, 0)
    yield tempfile, "gettempdir", _here(tempfile.gettempdir, str)
    yield tempfile, "gettempdirb", _here(tempfile.gettempdirb, os.fsencode)


def _moving(original: Any, paths: int) -> Any:
    """Return a function whose first `paths` values are paths, in the environment whose code runs."""

    def function(*values: Any, **named: Any) -> Any:
        environments = Environments.current
        if environments is None or environments.process() is None:
            return original(*values, **named)
        moved = environments.moved
        values = (*map(moved, values[:paths]), *values[paths:])
        result = original(*values, **{name: moved(one) if name in _NAMED else one for name, one in named.items()})
        return environments.timed(result) if isinstance(result, os.stat_result) else result

    return function


def _umask(mask: int) -> int:
    process = Environments.current and Environments.current.process()
    if not process:
        return _UMASK(mask)
    before, process.environment.umask = process.environment.umask, mask
    return int(before)


def _here(original: Any, text: Any) -> Any:
    """Return a function that names the folder itself, because `tempfile` deletes by a function that it holds."""

    def function() -> Any:
        environments = Environments.current
        return original() if environments is None or environments.process() is None else text(environments.tmp)

    return function
