"""`up` and `down`: a local stack in a process of its own, which outlives the command that started it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oneslot.local.state import LocalState, read_state, read_statistics

__all__ = ["LocalState", "down", "read_state", "read_statistics", "up"]


def up(home: Path, *, progress: Callable[[str], None], stage: str = "dev", processes: int = 4) -> LocalState:
    """Start a detached supervisor with a local stack and its poller; return when it is ready.

    Raises `AlreadyRunning` if one lives in that folder, else `LocalRunError` with a sentence if the start fails.
    """
    raise LookupError(home)


def down(home: Path) -> bool:
    """Stop the supervisor of that folder and clean up. True if one was running, False if there was nothing to stop."""
    raise LookupError(home)
