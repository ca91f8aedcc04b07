"""Measure what the exploration of handlers costs: `python -m lab.benchmarks.explored [--calls 2 5 10] [--write]`.

Each row is one process' CPU seconds: one message, two deliveries, at most one fault, all levels.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

from lab.figures.tables import LEFT, RIGHT, table
from oneslot.explorer.handlers.exploration import explore

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explorer-cost.md"
BUDGET = 60
"""Seconds for one handler."""

KINDS = {
    "one_item": "one item, each answer read",
    "in_turn": "one item, written and read in turn",
    "many_items": "an item for each call, answers read",
    "summed": "one item, answers added up",
    "listed": "one item, every answer kept",
}
"""The handlers in `explored_subjects.py`, and what their calls are."""

_BLOCK = re.compile(r"(<!-- generated: cost -->\n).*?(<!-- end -->\n)", re.DOTALL)


def measured(kind: str, calls: int, budget: float = BUDGET) -> list[str]:
    """Explore a handler of a kind with this many calls; return its row."""
    started = time.process_time()
    result = explore(
        f"explored_subjects.{kind}",
        messages=["m"],
        tables={"counters": "id"},
        law=lambda world: True,  # a law that always holds, so that no breach ends the search
        env={"CALLS": str(calls)},
        reports_failures=False,  # what the handlers return is a number
        path=Path(__file__).parent,
        budget=budget,
    )
    spent = time.process_time() - started
    figures = [sum(getattr(level, name) for level in result.levels) for name in ("states", "schedules", "executions")]
    shown = [f"{figures[0]:,}", shortened(figures[1]) if result.complete else "-", f"{figures[2]:,}", f"{spent:.1f}"]
    return [KINDS[kind], str(calls), *shown, "all levels" if result.complete else f'not "{result.level}"']


def shortened(number: int) -> str:
    """Return a number of schedules: all digits, or the first two and the power of ten."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def rows(calls: Sequence[int], budget: float = BUDGET) -> str:
    """Return the table."""
    header = ["calls", "N", "states", "schedules", "runs of the code", "CPU s", "complete"]
    return table(
        header, [measured(kind, count, budget) for kind in KINDS for count in calls], [LEFT, *[RIGHT] * 5, LEFT]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or put it into its page."""
    parser = argparse.ArgumentParser(prog="lab.benchmarks.explored", description=__doc__)
    parser.add_argument("--calls", type=int, nargs="+", default=[2, 5, 10], help="the numbers of calls")
    parser.add_argument("--write", action="store_true", help="put the table into lab/docs/explorer-cost.md")
    options = parser.parse_args(arguments)
    found = rows(options.calls)
    print(found)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_BLOCK.sub(lambda block: f"{block[1]}{found}{block[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
