"""The progress of a run: CPU and memory of processes, and a progress bar."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

BAR = 30


def cpu_seconds(pid: int) -> float:
    """Return the user and system CPU of a process so far; 0 if it has ended, or without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Return the resident memory of a process; 0 if it has ended, or without /proc."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


class Progress:
    """A progress bar on standard error; without a terminal, a line at each tenth."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total = label, total
        self._started = time.monotonic()
        self._tenth = -1

    def show(self, done: int) -> None:
        """Show that `done` messages are done."""
        share = min(1.0, done / self._total)
        rate = done / max(0.001, time.monotonic() - self._started)
        left = f"{(self._total - done) / rate:,.0f} s left" if done else "no estimate yet"
        text = f"{self._label}: {done:,} of {self._total:,}, {rate:,.0f}/s, {left}"
        if sys.stderr.isatty():
            filled = round(BAR * share)
            sys.stderr.write(f"\r\033[K[{'#' * filled}{'.' * (BAR - filled)}] {text}")
        elif int(share * 10) > self._tenth:
            self._tenth = int(share * 10)
            sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the bar, and go to the next line."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")


class LineCount:
    """The number of lines in a growing file. Each read covers only the new part."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._lines = path, 0, 0

    def read(self) -> int:
        """Return the lines so far; 0 if the file does not exist yet."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            self._lines += new.count(b"\n")
        return self._lines
