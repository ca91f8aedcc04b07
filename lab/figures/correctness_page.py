"""Fill the generated parts of docs/understand/correctness.md: the kept figures.

`python -m lab.figures.correctness_page` does it. A test compares the page with its output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab.documentation.blocks import replace_blocks
from lab.figures.tables import peers_table
from oneslot.laws.evidence import Law

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "understand" / "correctness.md"
FIGURES = REPOSITORY / "lab" / "results"


def fill(page: str) -> str:
    """Return the page with every generated block replaced. Raises `KeyError` for an unknown block."""
    writers: Mapping[str, Callable[[], str]] = {
        "explore": lambda: _explored(_kept("explored")),
        "peers": lambda: peers_table(_kept("explored")["peers"]),
        "simulate": lambda: _simulated(_kept("simulated")),
        "soak": lambda: _soaked(_kept("soak")),
    }
    return replace_blocks(page, writers)


def of_the_simulation(law: Law) -> bool:
    """Return True for a law about a part of the simulation alone, which the explorer does not have."""
    return law.name.startswith(("Q", "M"))


def _kept(name: str) -> Any:
    return json.loads((FIGURES / f"{name}.json").read_text())


def _explored(found: Any) -> str:
    totals = found["totals"]
    return (
        f"{len(found['explorations'])} explorations: {totals['schedules']:,} schedules, {totals['violating']:,} of them"
        f" violating, through {totals['states']:,} states, with {totals['executions']:,} executions of the handler.\n"
    )


def _simulated(found: Any) -> str:
    total = found["total"]
    return (
        f"{total['seeds']:,} seeds, {total['steps']:,} steps, {total['virtual_hours']:,.0f} virtual hours and"
        f" {total['faults']:,} faults: {total['violating']:,} violating run{'s' if total['violating'] != 1 else ''}.\n"
    )


def _soaked(run: Any) -> str:
    counts = run["counts"]
    return (
        f"{run['messages']:,} messages, {run['faults']:,} faults, {run['claimed_more_than_once']:,} requests claimed more than"
        f" once: {counts['lost']:,} lost, {counts['double_booked']:,} booked twice, {run['violations']:,} violations"
        f" (commit {run['commit']}, {run['cores']} cores).\n"
    )


def main() -> None:
    """Write the page."""
    PAGE.write_text(fill(PAGE.read_text()))
    sys.stderr.write(f"Wrote {PAGE.relative_to(REPOSITORY)}.\n")


if __name__ == "__main__":
    main()
