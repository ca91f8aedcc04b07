"""An exploration in a process of its own: what a handler leaves in a library ends with it."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import warnings
from typing import Any

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.verdict import Result

FORKS = sys.platform == "linux"
"""Elsewhere a fork may crash in the system's own libraries, so the exploration runs in this process."""


def explore_apart(handler: str, **options: Any) -> Result:
    """Explore as `explore` does, and raise what it raises, in a fork of this process.

    A law runs in the fork, so that what it changes outside of its world is lost.
    """
    if not FORKS:
        return explore(handler, **options)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of a process with threads. They end in the fork, which needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _answer(writing, handler, options)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        raise RuntimeError(f"the process that explored {handler} ended with status {os.waitstatus_to_exitcode(status)}")
    ended = pickle.loads(answer)  # noqa: S301 - what the fork wrote
    if isinstance(ended, BaseException):
        raise ended
    return ended  # type: ignore[no-any-return]


def _answer(writing: int, handler: str, options: dict[str, Any]) -> None:
    """Write the result or the exception to a pipe, and end this process without what pytest does at its end."""
    try:
        ended: Any = explore(handler, **options)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        ended = error
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(ended))
    finally:
        os._exit(0)
