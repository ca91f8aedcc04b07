"""The kept figures of the handlers, and the tables and paths that pages show of them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.figures.tables import LEFT, RIGHT, table
from lab.handlers import world_tables

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs"
LAB = Path(__file__).resolve().parents[1]
KEPT = LAB / "results" / "handlers.json"
WORLD = LAB / "results" / "world.json"
QUESTIONS = Path(__file__).parent / "questions"
PAGES = [
    LAB / "docs" / "handlers.md",
    DOCUMENTATION / "understand" / "what-handlers-get-wrong.md",
    *(DOCUMENTATION / "do" / "questions" / f"{name}.md" for name in ("twice", "in-progress", "dead-letter", "fifo")),
]
_BLOCK = re.compile(r"<!-- generated: ([^\n]+?) -->\n.*?<!-- end -->\n", re.DOTALL)
Figures = dict[str, Any]
WORLD_TABLES = {
    "repositories": world_tables.repositories_table,
    "explored": world_tables.explored_table,
    "refused": world_tables.refused_table,
    "breaches": world_tables.breaches_table,
    "mistakes": world_tables.mistakes_table,
}
GROUPS = ("public", "ours", "questions")


def kept() -> list[Figures]:
    """Return the figures of the last runs."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []


def write(found: Sequence[Figures]) -> None:
    """Keep figures, and fill the pages with them."""
    _keep(KEPT, found)
    write_pages()


def world_kept() -> list[Figures]:
    """Return the rows of the table of the world."""
    return json.loads(WORLD.read_text(encoding="utf-8")) if WORLD.exists() else []


def keep_world(rows: Sequence[Figures]) -> None:
    """Keep the rows of the table of the world."""
    _keep(WORLD, rows)


def _keep(file: Path, found: Sequence[Figures]) -> None:
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_pages() -> None:
    """Fill the pages with the kept figures."""
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


def fill(page: str) -> str:
    """Return a page with its generated blocks filled. Raises `KeyError` for an unknown one."""
    found = kept()
    public, ours, asked = ([one for one in found if one["group"] == group] for group in GROUPS)
    writers: Mapping[str, Callable[[], str]] = {
        "public handlers": lambda: handlers_table(public),
        "our handlers": lambda: handlers_table(ours),
        "repeated": lambda: repeated_table(public),
        "clones": lambda: clones_table(public),
        **{f"world {name}": partial(made, world_kept()) for name, made in WORLD_TABLES.items()},
        **{f"path {one['handler']}": partial(path_block, one) for one in found},
        **{f"verdict {one['handler']}": partial(verdict, one) for one in asked},
        **{f"code {one['handler']}": partial(code_block, *one["handler"].split(".")) for one in asked},
    }
    return _BLOCK.sub(lambda block: f"<!-- generated: {block[1]} -->\n{writers[block[1]]()}<!-- end -->\n", page)


def code_block(file: str, function: str) -> str:
    """Return a handler's code: `fixed` alone, or all of its file but that and the docstring."""
    text = (QUESTIONS / f"{file}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    (fixed,) = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "fixed")
    lines = text.splitlines()
    own = lines[fixed.lineno - 1 : fixed.end_lineno]
    rest = lines[tree.body[0].end_lineno : fixed.lineno - 1] + lines[fixed.end_lineno :]
    shown = "\n".join(own if function == "fixed" else rest).strip()
    return "```python\n" + re.sub(r"\n{4,}", "\n\n\n", shown) + "\n```\n"


def verdict(one: Figures) -> str:
    """Return a sentence for a handler that holds at every level."""
    return f"The explorer finds no breach in {one['schedules']:,} schedules ({one['states']:,} states).\n"


def path_block(one: Figures) -> str:
    """Return the shortest counterexample of a handler as a block of text."""
    return "```text\n" + "".join(f"{line}\n" for line in one["path"]) + "```\n"


def repeated_table(found: Sequence[Figures]) -> str:
    """Return a row for each counterexample that was repeated on the embedded AWS."""
    rows = [[one["handler"], *one["embedded"].split(": ")] for one in found if one["embedded"]]
    return table(["handler", "what was done", "what the table then held"], rows)


def handlers_table(found: Sequence[Figures]) -> str:
    """Return a row for each handler: its laws, the level that breaks, the shortest path, and what the search took."""
    header = ["handler", "as if once", "outside effects", "breaks at", "steps", "schedules", "states", "CPU s"]
    rows = [
        [
            one["handler"],
            one["kind"],
            "may repeat" if one["outside"] else "none" if one["kind"] == "holds" else "-",
            one["level"] or "-",
            str(one["steps"] or "-"),
            f"{one['schedules']:,}",
            f"{one['states']:,}",
            f"{one['cpu_seconds']:,.1f}",
        ]
        for one in found
    ]
    return table(header, rows, [LEFT] * 4 + [RIGHT] * 4)


def clones_table(found: Sequence[Figures]) -> str:
    """Return a row for each public repository: the address of its clone, and the commit."""
    commits = {one["repository"]: one["commit"] for one in found}
    return table(["repository", "commit"], [[f"`{name}`", f"`{at[:12]}`"] for name, at in commits.items()])


def shown_path(counterexample: str) -> list[str]:
    """Return the lines of a counterexample from its first step on, without the rows that exist before."""
    lines = [line.rstrip() for line in counterexample.splitlines()]
    first = next((number for number, line in enumerate(lines) if re.match(r" +1  ", line)), len(lines))
    return lines[first:]
