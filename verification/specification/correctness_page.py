"""Fills the generated parts of docs/correctness.md from their sources: the code's own tables, and the figures of the last runs.

`python -m verification.specification.correctness_page` does it; a test holds the page to what this would write.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from appointments.invariants import INVARIANTS
from verification.mutation.mutants import expected
from verification.scenarios.picture import guards_table, mutants_score

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "correctness.md"
FIGURES = REPOSITORY / "docs" / "proof"
CONSUMER = REPOSITORY / "oneslot" / "runtime" / "consumer" / "consumer.py"
_BLOCK = re.compile(r"<!-- generated: ([a-z ]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def fill(page: str, figures: Path = FIGURES) -> str:
    """Return the page with every generated block written anew. A run whose figures are not there says how to get them.

    Raises `KeyError` for a block that nothing here writes.
    """
    writers: Mapping[str, Callable[[], str]] = {
        "failures": failures,
        "laws": laws,
        "make explore": lambda: _figures(figures / "explored.json", "make explore", _explored),
        "museum": lambda: _figures(figures / "explored.json", "make explore", _museum),
        "mutants": lambda: f"{mutants_score(expected().counts)}\n\n{guards_table()}",
        "make spec": lambda: _figures(figures / "specification.json", "make spec", _specified),
        "make soak": lambda: _figures(figures / "soak.json", "make soak", _soaked),
    }
    return _BLOCK.sub(lambda block: f"<!-- generated: {block[1]} -->\n{writers[block[1]]()}<!-- end -->\n", page)


def failures() -> str:
    """The table in the consumer's docstring, as Markdown."""
    documentation = ast.get_docstring(ast.parse(CONSUMER.read_text())) or ""
    rows = [line for line in documentation.splitlines() if line.startswith("|")]
    header, _, *others = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return _table(header, others)


def laws() -> str:
    """The list of invariants, as Markdown."""
    rows = [
        [
            invariant.name,
            invariant.sentence,
            "what is left behind, and the explorer" if invariant.breaches else "the explorer",
        ]
        for invariant in INVARIANTS
    ]
    return _table(["law", "what must hold", "shown by"], rows)


def _figures(path: Path, command: str, write: Callable[[Any], str]) -> str:
    if not path.exists():
        return f"No figures have been kept yet; `{command}` makes them, and `make figures` puts them here.\n"
    return write(json.loads(path.read_text()))


def _explored(proof: Any) -> str:
    rows = [
        [
            f"{each['scenario']} ({each['size']})",
            f"{each['schedules']:,}",
            f"{each['violating']:,}",
            f"{each['states']:,}",
            f"{each['executions']:,}",
            f"{each['seconds']:,.1f}",
        ]
        for each in proof["explorations"]
    ]
    totals = proof["totals"]
    rows.append(
        [
            "all",
            *(f"{totals[name]:,}" for name in ("schedules", "violating", "states", "executions")),
            f"{proof['seconds']:,.1f}",
        ]
    )
    header = [
        "exploration (K deliveries, F faults, T expiries)",
        "schedules",
        "violating",
        "states",
        "executions",
        "seconds",
    ]
    return _table(header, rows)


def _museum(proof: Any) -> str:
    rows = [
        [
            each["subject"],
            f"{each['schedules']:,}",
            f"{each['violating']:,}",
            f"{100 * each['violating'] / each['schedules']:,.1f} %",
            ", ".join(each["laws_broken"]) or "none",
        ]
        for each in proof["museum"]
    ]
    size = proof["museum"][0]["size"]
    return _table([f"handler ({size})", "schedules", "violating", "share", "laws broken"], rows)


def _specified(found: Any) -> str:
    rows = [
        [
            str(model["consumers"]),
            str(model["messages"]),
            str(model["faults"]),
            f"{model['states']:,}",
            f"{model['seconds']:,.1f}",
            model["violated"] or "none",
        ]
        for model in found["models"]
    ]
    return _table(["consumers", "messages of the request", "faults", "states", "seconds", "violated"], rows)


def _soaked(run: Any) -> str:
    rows = [
        ["messages", f"{run['messages']:,} in {run['seconds']:,.0f} s ({run['messages_per_second']:,.0f} a second)"],
        ["requests", f"{run['counts']['requests']:,}"],
        ["calls through the proxy", f"{run['calls']:,}"],
        *([f"fault: {kind.replace('_', ' ')}", f"{times:,}"] for kind, times in sorted(run["faults_by_kind"].items())),
        ["faults in all", f"{run['faults']:,}"],
        *([f"deliveries: {outcome}", f"{times:,}"] for outcome, times in sorted(run["deliveries"].items())),
        ["requests that were claimed more than once", f"{run['claimed_more_than_once']:,}"],
        ["messages whose receives ran out", f"{run['receives_exhausted']:,}"],
        ["lost", f"{run['counts']['lost']:,}"],
        ["booked twice", f"{run['counts']['double_booked']:,}"],
        ["violations of any law", f"{run['violations']:,}"],
    ]
    return _table([f"`make soak SEED={run['seed']}`", ""], rows)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(fill(PAGE.read_text()))
    sys.stderr.write(f"Wrote {PAGE.relative_to(REPOSITORY)}.\n")


if __name__ == "__main__":
    main()
