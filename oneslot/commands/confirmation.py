"""A change is made after a yes: `--yes`, or the answer of a person at a terminal. Otherwise it is only told."""

from __future__ import annotations

import sys

import click

from oneslot.terminal import Terminal

DRY_RUN = "Nothing was changed. Add --yes to do it."


def confirmed(terminal: Terminal, question: str, *, yes: bool) -> bool:
    """Whether to go on. Asks only where somebody can answer; where not, says that nothing was changed."""
    if yes:
        return True
    if not terminal.as_json and sys.stdin.isatty() and sys.stdout.isatty() and click.confirm(question):
        return True
    terminal.plain(DRY_RUN, style="yellow")
    return False
