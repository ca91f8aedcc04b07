"""The command line of a benchmark: its options, the printing of its figures, and its exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

F = TypeVar("F")

INTERRUPTED = 130
"""Exit status after an interrupt, as in a shell."""


def run_main(main: Callable[[], int | None]) -> int:
    """Return the exit status of `main`: 0 for None; 130 after an interrupt, with a sentence on standard error."""
    try:
        return main() or 0
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return INTERRUPTED


def short_option(description: str | None, short: str) -> bool:
    """Parse the command line of a measurement, whose only option is `--short`, and return whether it is given."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help=short)
    return bool(parser.parse_args().short)


def print_figures(figures: Iterable[F], tables: Callable[[Sequence[F]], str]) -> int:
    """Measure, and print the tables; after an interrupt those of what was measured by then. Return the exit status."""
    measured: list[F] = []
    status = 0
    try:
        measured.extend(figures)
    except KeyboardInterrupt:
        status = INTERRUPTED
    print(tables(measured) if measured else "Nothing was measured.")
    return status
