"""An exploration in a process of its own: what a handler leaves in a library ends with it."""

import functools
import gc
import multiprocessing
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any
from unittest import mock

import boto3

from oneslot.explorer.handlers.aws import intercepted
from oneslot.explorer.handlers.exploration import LAMBDA, explore
from oneslot.explorer.handlers.surroundings.environment import sealed
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.account import services

FORKS = sys.platform == "linux"
"""Elsewhere a fork may crash in the system's own libraries, so the exploration runs in this process."""


def forked(function: Callable[..., Any], *arguments: Any) -> tuple[Connection, BaseProcess]:
    """Start a function in a fork of this process. The connection receives what it returns or raises.

    A fork finds boto3 and the explorer imported, and no other handler's traces.
    """
    _read_files()
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(writer, function, arguments), daemon=True)
    with warnings.catch_warnings():
        # Python warns of a process with threads. They end in the fork, which needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    writer.close()
    return reader, process


def explore_apart(handler: str, **options: Any) -> Result:
    """Explore as `explore` does, and raise what it raises, in a fork of this process.

    A law runs in the fork, so that what it changes outside of its world is lost.
    """
    if not FORKS:
        return explore(handler, **options)
    reader, process = forked(functools.partial(explore, handler, **options))
    try:
        ended = reader.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process that explored {handler} ended with status {process.exitcode}") from None
    process.join()
    if isinstance(ended, Exception):
        raise ended
    return ended  # type: ignore[no-any-return]


@functools.cache
def _read_files() -> None:
    """Read the files of botocore that every client needs, which each fork would read again."""
    with suppress(NotExplorable), mock.patch.dict(os.environ, LAMBDA, clear=True), intercepted(lambda: None):
        boto3.Session().client("dynamodb")
        services()


def _send(writer: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    gc.freeze()  # the fork looks for garbage among its own objects alone
    try:
        with sealed():
            returned = function(*arguments)
        writer.send(returned)
    except Exception as error:
        error.add_note(traceback.format_exc())
        writer.send(error)
