"""What can go wrong at the command line, as sentences for the person at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class OneslotError(Exception):
    """`str(error)` is one or more whole sentences: what is wrong and what to do. Exit status 1."""

    exit_code = 1


class BadInput(OneslotError):
    """An argument or a file that cannot be used as it is. Exit status 2, as for any usage error."""

    exit_code = 2


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An error of the system that names no file, as one of a full disk, is given the name of this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
