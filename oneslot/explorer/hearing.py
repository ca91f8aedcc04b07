"""What the code under test logs by Python's own logging, through whichever logger: kept with the invocation that logs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from oneslot.explorer.process import Process


class _Ear(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if Process.running is not None:
            Process.running.note(self.format(record))


@contextmanager
def hearing() -> Iterator[None]:
    """Within this, or in a function decorated with it, every process keeps what it logs, for the laws to read.

    From INFO on, as Lambda shows it; with the text of exceptions. Whoever runs processes to ask laws of them does it here.
    """
    root = logging.getLogger()
    ear, level = _Ear(), root.level
    root.addHandler(ear)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(ear)
