"""How a benchmark's command line ends: by its own status, and after an interrupt with a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

INTERRUPTED = 130
"""The exit status of whoever was interrupted, as shells have it."""


def ended(command_line: Callable[[], int | None]) -> int:
    """Run it and return its exit status: 0 for None; 130 and a sentence on standard error after an interrupt."""
    try:
        return command_line() or 0
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return INTERRUPTED
