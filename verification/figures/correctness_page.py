"""Fill the generated parts of correctness.md and explored.md in docs/understand: tables of the code, and kept figures.

`python -m verification.figures.correctness_page` does it. A test compares the pages with its output.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from oneslot.laws.evidence import Law
from verification.documentation.blocks import replace_blocks
from verification.figures.tables import mutants_score, peers_table, table
from verification.mutation.mutants import expected
from workload.declared import CONSUMER as DECLARED

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "understand" / "correctness.md"
PAGES = (PAGE, PAGE.with_name("explored.md"))
FIGURES = REPOSITORY / "docs" / "proof"
CONSUMER = REPOSITORY / "oneslot" / "runtime" / "consumer" / "consumer.py"


def fill(page: str, figures: Path = FIGURES) -> str:
    """Return the page with every generated block replaced. Missing figures become a sentence that names their command.

    Raises `KeyError` for an unknown block.
    """
    writers: Mapping[str, Callable[[], str]] = {
        "failures": failures,
        "laws": laws,
        "make explore": lambda: _figures(figures / "explored.json", "make explore", _explored),
        "peers": lambda: _figures(figures / "explored.json", "make explore", lambda found: peers_table(found["peers"])),
        "mutants": lambda: f"{mutants_score(expected().counts)}\n",
        "make simulate": lambda: _figures(figures / "simulated.json", "make simulate", _simulated),
        "make spec": lambda: _figures(figures / "specification.json", "make spec", _specified),
        "make soak": lambda: _figures(figures / "soak.json", "make soak", _soaked),
    }
    return replace_blocks(page, writers)


def failures() -> str:
    """Return the failure table of the consumer's docstring."""
    documentation = ast.get_docstring(ast.parse(CONSUMER.read_text())) or ""
    rows = [line for line in documentation.splitlines() if line.startswith("|")]
    header, _, *others = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return table(header, others)


_SHOWN_BY = {"Q": "the simulation", "M": "the simulation"}


def shown_by(law: Law) -> str:
    """Return who checks a law, in words."""
    return _SHOWN_BY.get(law.name[0], "the explorer") if not law.is_judged else "all"


def laws() -> str:
    """Return the table of invariants, and who shows which."""
    rows = [[law.name, law.sentence] for law in DECLARED.laws]
    names: dict[str, dict[str, None]] = {}
    for law in DECLARED.laws:
        name = f"each {law.name[0]}" if law.name[0] in _SHOWN_BY else law.name
        names.setdefault(shown_by(law), {})[name] = None
    shown = "; ".join(f"{who}: {', '.join(shown_laws)}" for who, shown_laws in names.items())
    return f"{table(['law', 'what must hold'], rows)}\nShown by {shown}.\n"


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
    violating = [f"{name} ({each['violating']:,})" for name, each in found["scenarios"].items() if each["violating"]]
    return (
        f"{total['seeds']:,} seeds, {total['steps']:,} steps, {total['virtual_hours']:,.0f} virtual hours, {total['faults']:,}"
        f" faults. Violating runs: {', '.join(violating) or 'none'}. Scenarios: {', '.join(found['scenarios'])}.\n"
    )


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
    return table(["consumers", "messages of the request", "faults", "states", "seconds", "violated"], rows)


def _soaked(run: Any) -> str:
    counts = run["counts"]
    rows = [
        ["messages", f"{run['messages']:,} in {run['seconds']:,.0f} s ({run['messages_per_second']:,.0f} a second)"],
        ["requests", f"{counts['requests']:,}, {run['claimed_more_than_once']:,} of them claimed more than once"],
        ["calls through the proxy", f"{run['calls']:,}"],
        ["faults", f"{run['faults']:,}: {_listed(run['faults_by_kind'])}"],
        ["deliveries", _listed(run["deliveries"])],
        ["messages out of receives", f"{run['receives_exhausted']:,}"],
        ["lost, booked twice", f"{counts['lost']:,}, {counts['double_booked']:,}"],
        ["violations of any law", f"{run['violations']:,}"],
    ]
    return table([f"`make soak SEED={run['seed']}`", ""], rows)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in sorted(counts.items()))


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        page.write_text(fill(page.read_text()))
        sys.stderr.write(f"Wrote {page.relative_to(REPOSITORY)}.\n")


if __name__ == "__main__":
    main()
