"""The table of the world as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lab.figures.tables import LEFT, RIGHT, table
from lab.handlers.world import REPOSITORIES
from lab.handlers.world_judged import MISTAKES, judged
from oneslot.explorer.scan.first_events import KNOWN

Row = Mapping[str, Any]
EXPLORED = ("holds", "breaks", "not finished")


def repositories_table(rows: Sequence[Row]) -> str:
    """Return a row for each repository of the rule."""
    found = []
    for name, (commit, licence) in REPOSITORIES.items():
        own = Counter(row["verdict"] for row in rows if row["repository"] == name)
        explored = sum(own[one] for one in EXPLORED)
        found.append([f"`{name}`", f"`{commit[:12]}`", licence, *map(str, (own.total(), explored, own["breaks"]))])
    sums = [str(sum(int(row[column]) for row in found)) for column in (3, 4, 5)]
    header = ["repository", "commit", "licence", "chosen", "explored", "break"]
    return table(header, [*found, ["all", "", "", *sums]], [LEFT] * 3 + [RIGHT] * 3)


def explored_table(rows: Sequence[Row]) -> str:
    """Return a row for each handler that was explored."""
    header = ["handler", "source", "verdict", "outside effects", "steps", "CPU s", "given"]
    found = [
        [
            _name(row),
            _kind(row["source"]),
            row["verdict"],
            "may repeat" if row["outside"] else "none" if row["verdict"] == "holds" else "-",
            str(row["steps"] or "-"),
            f"{row['cpu_seconds']:.1f}",
            ", ".join(row["given"]) or "-",
        ]
        for row in rows
        if row["verdict"] in EXPLORED
    ]
    return table(header, found, [LEFT] * 4 + [RIGHT] * 2 + [LEFT])


def refused_table(rows: Sequence[Row]) -> str:
    """Return the reason for each handler that was not explored."""
    found = [
        [_name(row), row["verdict"], row["why"].split("\n")[0].split(". ")[0].replace("|", "\\|")]
        for row in rows
        if row["verdict"] not in EXPLORED
    ]
    return table(["handler", "verdict", "why"], found)


def breaches_table(rows: Sequence[Row]) -> str:
    """Return a row for each breach: its mistake, where it ends, and what its authors may say."""
    found = [
        [_name(row), judged(row["key"])[0], row["path"][-1].strip().removeprefix("=> "), judged(row["key"])[1]]
        for row in rows
        if row["verdict"] == "breaks"
    ]
    return table(
        ["handler", "mistake", "its shortest path ends in", "its authors"], sorted(found, key=lambda one: one[1])
    )


def mistakes_table(rows: Sequence[Row]) -> str:
    """Return how many breaches each mistake makes."""
    counts = Counter(judged(row["key"])[0] for row in rows if row["verdict"] == "breaks")
    return table(["mistake", "breaches"], [[one, str(counts[one])] for one in MISTAKES if counts[one]], [LEFT, RIGHT])


def _kind(source: str) -> str:
    """Return the kind of a source, without the name of its resource."""
    return max((kind for kind in KNOWN if source.startswith(kind)), key=len)


def _name(row: Row) -> str:
    folder = row["template"].rpartition("/")[0].replace("/infrastructure", "").split("/")
    inner = "/".join(part for part in folder[-2:] if part)
    return f"{row['repository'].partition('/')[2]}: {inner}{'/' if inner else ''}{row['function']}"
