"""`up` and `down`: start and stop a local stack in a process of its own, the supervisor, which outlives the command.

Run as a program, this file is the supervisor.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from oneslot.declaration.reading import VARIABLE, declared
from oneslot.errors import AlreadyRunning, LocalStackFailed, OneslotError, StaleState, SystemRefused, Unexpected
from oneslot.local.mapping.event_source_mapping import DEFAULT_PROCESSES
from oneslot.local.stack import in_use, local_stack
from oneslot.local.state import STATE_FILE, LocalState, load_state, private_folder, read_state, start_ticks, tail

SUPERVISOR_LOG = "supervisor.log"
# A stop waits for the batches in hand, which is at most the function's timeout. After this time the process is killed.
STOP_SECONDS = 60.0


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
    as for `local_stack`. Raises `AlreadyRunning` if a stack runs in that folder, and `LocalStackFailed` if the start fails;
    then nothing is left running.
    """
    consumer = declared().path
    home = home.resolve()
    private_folder(home)
    if in_use(home):
        raise AlreadyRunning(
            f"A local stack already runs in {home}, or another command starts one. See `oneslot status`, or wait for it."
        )
    log = (home / SUPERVISOR_LOG).open("wb")
    news, their_news = os.pipe()
    given = {"home": str(home), "stage": stage, "processes": processes, "context": dict(context or {})}
    given |= {"assembly": assembly and str(assembly.resolve()), "news": their_news}
    try:
        with log:
            # It forks and its parent half exits, which is what this call waits for. The other half has no parent here.
            subprocess.run(
                [sys.executable, "-m", __name__, json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[their_news],
                env={**os.environ, **({VARIABLE: str(consumer)} if consumer else {})},
                check=True,
            )
    except subprocess.CalledProcessError as error:
        os.close(news)
        raise LocalStackFailed(f"The supervisor did not start:\n{tail(home / SUPERVISOR_LOG)}") from error
    finally:
        os.close(their_news)
    with os.fdopen(news) as lines:
        return _follow(lines, home, progress)


def down(home: Path) -> bool:
    """Stop the supervisor of that folder and clean up. Return True if one was running.

    Only the process that wrote the state is stopped: it has the same PID and start time, and holds the folder's lock.
    Batches in hand finish first. Raises `AlreadyRunning` while another command starts or stops a stack there.
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
            f"Another command is starting or stopping a local stack in {home}. Wait for it, then try again."
        )
    (home / STATE_FILE).unlink(missing_ok=True)
    return running


def _follow(lines: TextIO, home: Path, progress: Callable[[str], None]) -> LocalState:
    """Pass the supervisor's messages on until it is ready, and return its state. End it if that fails or is interrupted.

    Raises `LocalStackFailed` with the code and the exit status of an error that it reports, and `Unexpected` if it exits.
    """
    with ExitStack() as started:  # an interrupted start leaves nothing behind
        for line in lines:
            match json.loads(line):
                case {"pid": int(pid)} if (since := start_ticks(pid)) is not None:
                    started.callback(_stop, pid, since)
                case {"progress": str(sentence)}:
                    progress(sentence)
                case {"error": str(sentence), "code": str(code), "status": int(status)}:
                    failed = LocalStackFailed(sentence)
                    failed.code, failed.exit_code = code, status
                    raise failed
                case {"ready": True} if state := read_state(home):
                    started.pop_all()
                    return state
        raise Unexpected(f"The supervisor exited during the start. The end of its log:\n{tail(home / SUPERVISOR_LOG)}")


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


def _say(news: int, **message: Any) -> None:
    """Send a JSON line to the command that started this, or exit if it is gone: an interrupted start leaves nothing behind."""
    try:
        os.write(news, json.dumps(message).encode() + b"\n")
    except BrokenPipeError:
        sys.exit("The command that started this supervisor is gone.")


def _end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  the signature of a signal handler
    # Once only: a second signal must not interrupt the orderly end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Only a synthesis shares our process group. A signal to `python app.py` alone would not end its Node.js.
    os.killpg(0, signal.SIGTERM)
    sys.exit(0)


def _supervise(news: int, home: Path, assembly: Path | None, **given: Any) -> None:
    os.set_inheritable(news, False)
    _say(news, pid=os.getpid())
    try:
        with local_stack(
            home, progress=lambda sentence: _say(news, progress=sentence), assembly=assembly, **given
        ) as stack:
            stack.start()
            _say(news, progress="The handler is warm and the queue is polled.")
            _say(news, ready=True)
            os.close(news)
            while stack.aws.alive:
                time.sleep(1)
            raise LocalStackFailed(f"The embedded AWS exited unexpectedly. Its log: {stack.aws.log_file}")
    except (OneslotError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        told = error if isinstance(error, OneslotError) else SystemRefused
        with suppress(OSError):  # the pipe is closed once the stack is ready
            _say(news, error=str(error), code=told.code, status=told.exit_code)
        sys.exit(1)


def _main() -> None:
    given = json.loads(sys.argv[1])
    home, assembly = Path(given.pop("home")), given.pop("assembly")
    # In a child with a session of its own, so that a closed terminal or its Ctrl-C does not end the stack.
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    _supervise(given.pop("news"), home, assembly and Path(assembly), **given)


if __name__ == "__main__":
    _main()
