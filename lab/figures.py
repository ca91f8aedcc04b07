"""The figures as Markdown, and the parts of pages that are made of them.

Those stand between `<!-- generated: NAME -->` and `<!-- end -->`. `python -m lab.figures` fills those of
docs/understand/correctness.md. Rows and documents are those of `explored.json`.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
LEFT, RIGHT = "---", "---:"


def listing(entries: Iterable[tuple[str, str]]) -> str:
    """Return a Markdown list of names, each with its meaning."""
    return "".join(f"- {name}: {meaning}\n" for name, meaning in entries)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], alignment: Sequence[str] = ()) -> str:
    """Return a Markdown table, its columns aligned to the left if nothing else is said."""
    lines = [header, alignment or [LEFT] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def explorations_table(document: Row) -> str:
    """Return a row for each of our explorations."""
    header = ["exploration", "budget", "schedules", "violating", "states", "executions"]
    rows = [
        [row["scenario"], row["size"], *(f"{row[name]:,}" for name in header[2:])] for row in document["explorations"]
    ]
    return table(header, rows, [LEFT, LEFT, *[RIGHT] * 4])


def peers_table(peers: Sequence[Row]) -> str:
    """Return their budget in words, then a row for each peer, and one for our handler."""
    deliveries, faults, expiries = (int(part.partition("=")[2]) for part in peers[0]["size"].split())
    rows = [
        [
            row["subject"],
            f"{row['schedules']:,}",
            f"{row['violating']:,}",
            share(row),
            ", ".join(row["laws_broken"]) or "none",
        ]
        for row in peers
    ]
    budget = f"Deliveries of a message: {deliveries}. Faults: {faults}. Leases that end: {expiries}.\n"
    header = ["handler", "schedules", "violating", "share", "laws broken"]
    return f"{budget}\n{table(header, rows, [LEFT, RIGHT, RIGHT, RIGHT, LEFT])}"


def share(row: Row) -> str:
    """Return the share of violating schedules in percent."""
    if not row["violating"]:
        return "0 %"
    percent = 100 * row["violating"] / row["schedules"]
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2f} %"


def page(document: Row) -> str:
    """Return the text of `explored.md`."""
    return (
        "# Each exploration\n\n"
        "Written by `make -C lab explore`, or for small budgets by"
        " `python -m lab.explore --short --write lab/results`.\n"
        "A budget is the deliveries (K), faults (F) and lease expiries (T) of one schedule."
        " [Correctness](../../docs/understand/correctness.md#what-was-explored) has the method and the totals.\n\n"
        f"{explorations_table(document)}"
    )


REPOSITORY = Path(__file__).resolve().parents[1]
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


_BLOCK = re.compile(r"<!-- generated: ([^\n]+?) -->\n.*?<!-- end -->\n", re.DOTALL)


def first_sentence(documentation: str) -> str:
    """Return the first sentence of a docstring or a help text."""
    return re.split(r"(?<=\.) ", " ".join(documentation.split()), maxsplit=1)[0]


def replace_blocks(page: str, writers: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with the content of every block written again. Raises `KeyError` for an unknown block."""
    return _BLOCK.sub(lambda block: f"<!-- generated: {block[1]} -->\n{writers[block[1]]()}<!-- end -->\n", page)


if __name__ == "__main__":
    main()
