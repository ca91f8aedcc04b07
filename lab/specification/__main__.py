"""Check the specification, small model first: `python -m lab.specification`. Exit status 1 on a violation."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from lab.specification.checker import Model, check, specification
from oneslot.cli import run_command
from oneslot.terminal import Terminal

MODELS = (Model(2, 2, 2), Model(2, 1, 3), Model(2, 2, 3), Model(3, 1, 2))
"""The worlds of `make -C lab spec`; the tests visit the first one."""
FIGURES = "specification.json"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, and nothing else.")
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Write the figures to this directory.")
def main(*, as_json: bool, write: Path | None) -> int:
    """Check the TLA+ specification of the protocol in worlds of growing size."""
    terminal = Terminal(as_json)
    results = []
    for model in MODELS:
        started = time.perf_counter()
        world = f"{model.consumers} consumers, {model.messages} message(s) of a request, {model.faults} faults"
        with terminal.working(world):
            found = check(specification(), model)
        seconds = time.perf_counter() - started
        results.append(
            {
                "consumers": model.consumers,
                "messages": model.messages,
                "faults": model.faults,
                "states": found.states,
                "seconds": round(seconds, 1),
                "violated": found.violated,
            }
        )
        terminal.plain(f"{world}: {found.states:,} states, {seconds:.1f} s, {found.violated or 'every law holds'}")
        if not found.holds:
            terminal.lines(found.trace)
    terminal.result({"models": results})
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        (write / FIGURES).write_text(json.dumps({"models": results}, indent=2) + "\n")
    return int(any(result["violated"] for result in results))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    return run_command(
        lambda: main.main(list(arguments), "python -m lab.specification", standalone_mode=False),
        as_json="--json" in arguments,
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
