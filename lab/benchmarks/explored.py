"""What the exploration of handlers costs, for lab/docs/explorer-cost.md.

Each row is one process' CPU seconds: one message, two deliveries, at most one fault, all levels.
"""

import time
from pathlib import Path

from lab.figures import LEFT, RIGHT, replace_blocks, table
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
    shown = [f"{figures[0]:,}", shortened(figures[1]) if result.holds else "-", f"{figures[2]:,}", f"{spent:.1f}"]
    return [KINDS[kind], str(calls), *shown, "all levels" if result.holds else f'not "{result.level}"']


def shortened(number: int) -> str:
    """Return a number of schedules: all digits, or the first two and the power of ten."""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def tables(short: bool) -> str:
    """Return the table, and put it into its page."""
    header = ["calls", "N", "states", "schedules", "runs of the code", "CPU s", "complete"]
    rows = [measured(kind, count) for kind in KINDS for count in (2, 5, 10)]
    found = table(header, rows, [LEFT, *[RIGHT] * 5, LEFT])
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replace_blocks(page, {"cost": lambda: found}), encoding="utf-8")
    return found
