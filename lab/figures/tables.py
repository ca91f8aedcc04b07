"""The figures as Markdown. Rows and documents are those of `explored.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
