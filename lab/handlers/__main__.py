"""Explore the handlers and keep the figures: `python -m lab.handlers [--clones FOLDER]`.

The breaches of public handlers are repeated on the embedded AWS. Without clones these handlers keep their last figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab.handlers.deliveries import repeated
from lab.handlers.figures import GROUPS, KEPT, Figures, kept, shown_path, write
from lab.handlers.public import PUBLIC
from lab.handlers.subjects import OURS, QUESTIONS, Subject
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.refusal import NotExplorable

ALL = (PUBLIC, OURS, QUESTIONS)
BUDGET = 300
"""Seconds for a handler. Only a handler that needs more ends without a verdict."""


def explored(subject: Subject, clones: Path = Path(), budget: float = BUDGET) -> Figures:
    """Explore a handler. Raises `NotExplorable`."""
    started = time.process_time()
    result = explore(subject.handler, path=subject.paths(clones), budget=budget, **subject.options)
    return {
        "handler": subject.name,
        "group": next(group for group, subjects in zip(GROUPS, ALL, strict=True) if subject in subjects),
        "repository": subject.repository,
        "commit": subject.commit,
        "kind": result.kind,
        "holds": result.holds,
        "complete": result.complete,
        "verdict": result.verdict,
        "level": result.level if result.kind == "breaks" else "",
        "steps": result.length,
        "schedules": sum(level.schedules for level in result.levels),
        "states": sum(level.states for level in result.levels),
        "cpu_seconds": round(time.process_time() - started, 1),
        "outside": list(result.outside),
        "path": shown_path(result.counterexample),
        "embedded": "",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore, keep, and fill the pages. Return 1 if a handler is refused."""
    parser = argparse.ArgumentParser(prog="lab.handlers", description=__doc__)
    parser.add_argument("--clones", type=Path, help="a folder with a clone of each public repository")
    options = parser.parse_args(arguments)
    found = {one["handler"]: one for one in kept()}
    status = 0
    for subject in (*(PUBLIC if options.clones else ()), *OURS, *QUESTIONS):
        try:
            one = explored(subject, options.clones or Path())
        except NotExplorable as error:
            sys.stderr.write(f"{subject.name}: {error}\n")
            status = 1
            continue
        if subject.repository and one["kind"] == "breaks":
            one["embedded"] = repeated(subject, options.clones)
        found[subject.name] = one
        sys.stderr.write(f"{subject.name}: {one['verdict']} ({one['cpu_seconds']} CPU s) {one['embedded']}\n")
    write([found[subject.name] for group in ALL for subject in group if subject.name in found])
    sys.stderr.write(f"Wrote {KEPT.name}.\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
