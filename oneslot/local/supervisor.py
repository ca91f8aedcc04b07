"""`up` and `down`: a local stack in a process of its own, which outlives the command that started it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from oneslot.local.errors import AlreadyRunning, EmbeddedAwsFailed, LocalRunError, StaleState
from oneslot.local.mapping.event_source_mapping import DEFAULT_PROCESSES
from oneslot.local.processes import start_ticks
from oneslot.local.stack import in_use, local_stack
from oneslot.local.state import STATE_FILE, LocalState, load_state, read_state, read_statistics, usable

__all__ = ["LocalState", "down", "read_state", "read_statistics", "up"]

SUPERVISOR_LOG = "supervisor.log"
# A stop waits for the batches in hand, that is for the function's timeout; whoever needs longer is killed.
STOP_SECONDS = 60.0
_LOG_TAIL = 15  # lines of its log in an error


def up(
    home: Path,
    *,
    progress: Callable[[str], None],
    stage: str = "dev",
    processes: int = DEFAULT_PROCESSES,
    context: Mapping[str, str] | None = None,
    assembly: Path | None = None,
) -> LocalState:
    """Start a detached supervisor with a local stack and its poller; return when it is ready.

    home: the state folder. progress: called with one sentence at each step. stage, processes, context, assembly:
    as for `local_stack`. Raises `AlreadyRunning` if a stack lives in that folder, else `LocalRunError` with a sentence if the
    start fails; then nothing is left running.
    """
    home = home.resolve()
    with usable(home):
        home.mkdir(parents=True, exist_ok=True)
    _refuse_a_second(home, progress)
    with usable(home):
        log = (home / SUPERVISOR_LOG).open("wb")
    news, their_news = os.pipe()
    command = [sys.executable, "-m", __name__, str(home), "--stage", stage, "--processes", str(processes)]
    command += ["--context", json.dumps(dict(context or {}))]
    if assembly is not None:
        command += ["--assembly", str(assembly.resolve())]
    try:
        with log:
            # It forks and lets its first half end: that is what we wait for here. The half that stays is nobody's child.
            subprocess.run(
                [*command, "--news", str(their_news)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[their_news],
                check=True,
            )
    except subprocess.CalledProcessError as error:
        os.close(news)
        raise LocalRunError(f"The supervisor did not start:\n{_tail(home)}") from error
    finally:
        os.close(their_news)
    starting = _Starting(home, progress)
    with os.fdopen(news) as lines:
        try:
            return starting.follow(lines)
        except BaseException:  # Ctrl-C too: a start that was given up leaves nothing behind
            starting.give_up()
            raise


def down(home: Path) -> bool:
    """Stop the supervisor of that folder and clean up. True if one was running, False if there was nothing to stop.

    Only a process that is surely the one that wrote the state is stopped: same PID, same start time, and it holds the
    folder's lock. Batches in hand are finished first. Raises `AlreadyRunning` if another command is starting one there, or
    stopping it: it is not ours to stop, and "none was running" would not be true.
    """
    home = home.resolve()
    try:
        state = load_state(home)
    except StaleState:
        state = None
    running = state is not None and state.running and in_use(home)
    if state is not None and running:
        _stop(state.supervisor_pid, state.supervisor_start)
    elif in_use(home):
        raise AlreadyRunning(
            f"Another command is starting or stopping a local stack in {home}. Wait for it, then look again."
        )
    with usable(home):
        (home / STATE_FILE).unlink(missing_ok=True)
    return running


def _refuse_a_second(home: Path, progress: Callable[[str], None]) -> None:
    try:
        state = read_state(home)
    except StaleState:
        progress("The last local stack here ended without saying so; what it left is moved to `previous`.")
        state = None
    if state is not None:
        raise AlreadyRunning(
            f"A local stack already runs in {home}: {state.endpoint_url}, process {state.supervisor_pid}. "
            "Use it as it is (oneslot status), or end it first: oneslot down."
        )
    if in_use(home):
        raise AlreadyRunning(f"A local stack is being started in {home} by another command. Wait for it.")


class _Starting:
    """Passes on what the supervisor says until it is ready, and knows which process that is."""

    def __init__(self, home: Path, progress: Callable[[str], None]) -> None:
        self._home = home
        self._progress = progress
        self._pid = 0
        self._started: int | None = None

    def follow(self, lines: TextIO) -> LocalState:
        """Return its state when it is ready. Raises `LocalRunError` if it says that it failed, or ends."""
        for line in lines:
            match json.loads(line):
                case {"pid": int(number)}:
                    self._pid, self._started = number, start_ticks(number)
                case {"progress": str(sentence)}:
                    self._progress(sentence)
                case {"error": str(sentence)}:
                    raise LocalRunError(sentence)
                case {"ready": True} if state := read_state(self._home):
                    return state
        raise LocalRunError(f"The supervisor ended while it started. The end of its log:\n{_tail(self._home)}")

    def give_up(self) -> None:
        """End it, if it still runs."""
        if self._started is not None:
            _stop(self._pid, self._started)


def _stop(pid: int, started: int) -> None:
    """End the process of this PID and start time: SIGTERM, a bounded wait, SIGKILL. Its children end with it."""
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        if start_ticks(pid) != started:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while time.monotonic() < deadline:
            if start_ticks(pid) != started:
                return
            time.sleep(0.02)


def _tail(home: Path) -> str:
    with suppress(OSError):
        return "\n".join((home / SUPERVISOR_LOG).read_text(errors="replace").splitlines()[-_LOG_TAIL:])
    return "(no log)"


class _News:
    """What the supervisor tells the command that started it: JSON lines on a pipe, until it is ready."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **message: Any) -> None:
        """Say it, or end if nobody listens any more: a start that was given up leaves nothing behind."""
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            sys.exit("the command that started this supervisor is gone")

    def close(self) -> None:
        """Nothing more to say."""
        os.close(self._descriptor)


def _detach() -> None:
    """Go on in a child of its own session, so that neither a closed terminal nor Ctrl-C in it ends the local stack."""
    if os.fork():
        os._exit(0)
    os.setsid()


def _end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  the signature of a signal handler
    # Only once: a second signal must not cut off the orderly end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A synthesis that is at work: it is of our group, alone. To end `python app.py` would not end its Node.js.
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
            raise EmbeddedAwsFailed(f"The embedded AWS ended by itself. Its log: {stack.aws.log_file}")
    except LocalRunError as error:
        sys.stderr.write(f"{error}\n")
        with suppress(OSError):  # the pipe is closed if this comes after the start
            news.say(error=str(error))
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
    _detach()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    _supervise(arguments, _News(arguments.news))


if __name__ == "__main__":
    _main()
