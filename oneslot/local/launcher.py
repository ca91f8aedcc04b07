"""`up` and `down`: start and stop a local stack in a process of its own, which outlives the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TextIO

from oneslot.declaration.reading import VARIABLE, declared
from oneslot.errors import AlreadyRunning, LocalStackFailed, StaleState
from oneslot.local.mapping.event_source_mapping import DEFAULT_PROCESSES
from oneslot.local.processes import start_ticks, tail
from oneslot.local.stack import in_use
from oneslot.local.state import STATE_FILE, LocalState, load_state, private_folder, read_state

SUPERVISOR = "oneslot.local.supervisor"
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
    _refuse_a_second(home, progress)
    log = (home / SUPERVISOR_LOG).open("wb")
    news, their_news = os.pipe()
    command = [sys.executable, "-m", SUPERVISOR, str(home), "--stage", stage, "--processes", str(processes)]
    command += ["--context", json.dumps(dict(context or {}))]
    if assembly is not None:
        command += ["--assembly", str(assembly.resolve())]
    try:
        with log:
            # It forks and its parent half exits, which is what this call waits for. The other half has no parent here.
            subprocess.run(
                [*command, "--news", str(their_news)],
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


def _refuse_a_second(home: Path, progress: Callable[[str], None]) -> None:
    try:
        state = read_state(home)
    except StaleState:
        progress("The last local stack here was killed; its files are moved to `previous`.")
        state = None
    if state is not None:
        raise AlreadyRunning(
            f"A local stack already runs in {home}: {state.endpoint_url}, process {state.supervisor_pid}. "
            "Use it (oneslot status), or end it first: oneslot down."
        )
    if in_use(home):
        raise AlreadyRunning(f"Another command is starting a local stack in {home}. Wait for it.")


def _follow(lines: TextIO, home: Path, progress: Callable[[str], None]) -> LocalState:
    """Pass the supervisor's messages on until it is ready, and return its state. End it if that fails or is interrupted.

    Raises `LocalStackFailed` if it reports an error or exits.
    """
    with ExitStack() as started:  # an interrupted start leaves nothing behind
        for line in lines:
            match json.loads(line):
                case {"pid": int(pid)} if (since := start_ticks(pid)) is not None:
                    started.callback(_stop, pid, since)
                case {"progress": str(sentence)}:
                    progress(sentence)
                case {"error": str(sentence), "code": str(code)}:
                    failed = LocalStackFailed(sentence)
                    failed.code = code
                    raise failed
                case {"ready": True} if state := read_state(home):
                    started.pop_all()
                    return state
        log = tail(home / SUPERVISOR_LOG)
        raise LocalStackFailed(f"The supervisor exited during the start. The end of its log:\n{log}")


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
