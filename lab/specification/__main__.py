"""Check the specification in worlds of growing size: `python -m lab.specification`. Exit status 1 on a violation."""

import sys
import time

from lab.specification.checker import Model, check, specification
from oneslot.operator.cli import run_command
from oneslot.operator.terminal import Terminal

MODELS = (Model(2, 2, 2), Model(2, 1, 3), Model(2, 2, 3), Model(3, 1, 2))
"""The worlds of `make -C lab spec`; the tests visit the first one."""


def main() -> int:
    """Check each world, and print its states and what is violated."""
    terminal, violated = Terminal(), False
    for model in MODELS:
        started = time.perf_counter()
        world = f"{model.consumers} consumers, {model.messages} message(s) of a request, {model.faults} faults"
        with terminal.working(world):
            found = check(specification(), model)
        seconds = time.perf_counter() - started
        terminal.plain(f"{world}: {found.states:,} states, {seconds:.1f} s, {found.violated or 'every law holds'}")
        if not found.holds:
            terminal.lines(found.trace)
            violated = True
    return int(violated)


if __name__ == "__main__":
    sys.exit(run_command(main, as_json=False))
