"""Knowing a process for sure, and ending one that we started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone, or only waits to be collected.

    A PID alone proves nothing: numbers are used again. PID and start time together name one process. Where there is
    no /proc the answer is 0 for every live process.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name, in brackets, may hold anything, brackets too: read from behind the last one. man 5 proc:
    # field 3 is the state, field 22 the start time.
    after_name = text.rpartition(")")[2].split()
    state, started = after_name[0], after_name[19]
    return None if state in "ZX" else int(started)


def end_process(process: subprocess.Popen[bytes], *, grace_seconds: float) -> None:
    """Ask a child to end (SIGTERM), wait that long, then kill it. Returns when it has been collected."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
