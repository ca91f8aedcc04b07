"""The command line of a benchmark: its options, the printing of its figures, and its exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound="DataclassInstance")

INTERRUPTED = 130
"""Exit status after an interrupt, as in a shell."""


def run_main(main: Callable[[], int | None]) -> int:
    """Return the exit status of `main`: 0 for None; 130 after an interrupt, with a sentence on standard error."""
    try:
        return main() or 0
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return INTERRUPTED


def measurement_parser(description: str | None, short: str) -> argparse.ArgumentParser:
    """Return a parser with `--short` and `--json`, the options that every measurement has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help=short)
    add_json_option(parser)
    return parser


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`: figures as lines of JSON."""
    parser.add_argument("--json", action="store_true", help="print each figure as a line of JSON when it is measured")


def print_figures(figures: Iterable[F], tables: Callable[[Sequence[F]], str], *, as_lines: bool) -> int:
    """Print figures (dataclasses): each as a line of JSON when it is measured, or all as tables at the end.

    An interrupt ends the measuring; what was measured by then is printed. Return the exit status: 0, or 130 if interrupted.
    """
    measured: list[F] = []
    status = 0
    try:
        for figure in figures:
            measured.append(figure)
            if as_lines:
                print(json.dumps(asdict(figure)), flush=True)
    except KeyboardInterrupt:
        status = INTERRUPTED
    if not as_lines:
        print(tables(measured) if measured else "Nothing was measured.")
    return status
