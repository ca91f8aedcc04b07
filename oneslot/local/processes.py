"""The identity of a process, and the end of its log."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_LAST_LINES = 15


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has exited.

    A PID alone can be reused; PID and start time together identify one process. Without /proc the result is 0 for every
    live process.
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
    # The command name, in parentheses, may contain parentheses: read from behind the last one. man 5 proc:
    # field 3 is the state, field 22 the start time.
    after_name = text.rpartition(")")[2].split()
    state, started = after_name[0], after_name[19]
    return None if state in "ZX" else int(started)


def tail(log: Path) -> str:
    """Return the last lines of a process's log, for an error."""
    with suppress(OSError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
    return "(no log)"
