"""Fill the generated parts of docs/understand/correctness.md: tables of the code, and kept figures.

`python -m lab.figures.correctness_page` does it. A test compares the page with its output.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from demo.declared import CONSUMER as DECLARED
from lab.documentation.blocks import replace_blocks
from lab.figures.tables import peers_table, table
from oneslot.laws.evidence import Law

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "understand" / "correctness.md"
FIGURES = REPOSITORY / "lab" / "results"
CONSUMER = REPOSITORY / "oneslot" / "runtime" / "consumer" / "consumer.py"


def fill(page: str, figures: Path = FIGURES) -> str:
    """Return the page with every generated block replaced. Missing figures become a sentence that names their command.

    Raises `KeyError` for an unknown block.
    """
    writers: Mapping[str, Callable[[], str]] = {
        "failures": failures,
        "laws": laws,
        "explore": lambda: _figures(figures / "explored.json", "make -C lab explore", _explored),
        "peers": lambda: _figures(
            figures / "explored.json", "make -C lab explore", lambda found: peers_table(found["peers"])
        ),
        "simulate": lambda: _figures(figures / "simulated.json", "make -C lab simulate", _simulated),
        "soak": lambda: _figures(figures / "soak.json", "make -C lab soak", _soaked),
    }
    return replace_blocks(page, writers)


def failures() -> str:
    """Return the failure table of the consumer's docstring."""
    documentation = ast.get_docstring(ast.parse(CONSUMER.read_text())) or ""
    rows = [line for line in documentation.splitlines() if line.startswith("|")]
    header, _, *others = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return table(header, others)


def of_the_simulation(law: Law) -> bool:
    """Return True for a law about a part of the simulation alone, which the explorer does not have."""
    return law.name.startswith(("Q", "M"))


def laws() -> str:
    """Return the laws of the product: those that all judges check, then those of the explorer alone."""
    shown = [law for law in DECLARED.laws if not of_the_simulation(law)]
    everywhere = "".join(_in_words(law) for law in shown if law.is_judged)
    explored = "".join(_in_words(law) for law in shown if not law.is_judged)
    return (
        f"The explorer, `oneslot check`, the audit and the simulation check these:\n\n{everywhere}\n"
        f"These are about calls and log lines, so the explorer alone checks them:\n\n{explored}"
    )


def _in_words(law: Law) -> str:
    return f"- {law.sentence.removesuffix('.')} ({law.name}).\n"


def _figures(path: Path, command: str, write: Callable[[Any], str]) -> str:
    if not path.exists():
        return f"There are no figures yet. Run `{command}`, then `make figures`.\n"
    return write(json.loads(path.read_text()))


def _explored(found: Any) -> str:
    totals = found["totals"]
    return (
        f"{len(found['explorations'])} explorations: {totals['schedules']:,} schedules, {totals['violating']:,} of them"
        f" violating, through {totals['states']:,} states, with {totals['executions']:,} executions of the handler, in"
        f" {found['seconds']:,.0f} seconds.\n"
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
