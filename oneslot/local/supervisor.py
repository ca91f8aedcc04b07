"""The supervisor: the process of a detached local stack. `launcher.up` starts it and reads its messages."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from oneslot.errors import EmbeddedAwsFailed, OneslotError, SystemRefused
from oneslot.local.stack import local_stack


class _News:
    """Messages to the command that started the supervisor: JSON lines on a pipe, until the stack is ready."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **message: Any) -> None:
        """Send a message, or exit if the command is gone: an interrupted start leaves nothing behind."""
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            sys.exit("The command that started this supervisor is gone.")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


def _end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  the signature of a signal handler
    # Once only: a second signal must not interrupt the orderly end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Only a synthesis shares our process group. A signal to `python app.py` alone would not end its Node.js.
    os.killpg(0, signal.SIGTERM)
    sys.exit(0)


def _supervise(arguments: argparse.Namespace, news: _News) -> None:
    news.say(pid=os.getpid())
    try:
        with local_stack(
            arguments.home,
            progress=lambda sentence: news.say(progress=sentence),
            processes=arguments.processes,
            stage=arguments.stage,
            context=arguments.context,
            assembly=arguments.assembly,
        ) as stack:
            stack.start()
            news.say(progress="The handler is warm and the queue is polled.")
            news.say(ready=True)
            news.close()
            while stack.aws.alive:
                time.sleep(1)
            raise EmbeddedAwsFailed(f"The embedded AWS exited unexpectedly. Its log: {stack.aws.log_file}")
    except (OneslotError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        with suppress(OSError):  # the pipe is closed once the stack is ready
            news.say(error=str(error), code=getattr(error, "code", SystemRefused.code))
        sys.exit(1)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--stage", required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--context", type=json.loads, required=True)
    parser.add_argument("--news", type=int, required=True)
    parser.add_argument("--assembly", type=Path)
    arguments = parser.parse_args()
    # In a child with a session of its own, so that a closed terminal or its Ctrl-C does not end the stack.
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    _supervise(arguments, _News(arguments.news))


if __name__ == "__main__":
    _main()
