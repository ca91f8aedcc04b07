"""The kept figures of the table of the world and of the question pages, and the tables and paths that pages show."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.handlers import world_tables

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs"
LAB = Path(__file__).resolve().parents[1]
WORLD = LAB / "results" / "world.json"
ASKED = LAB / "results" / "questions.json"
QUESTIONS = Path(__file__).parent / "questions"
PAGES = [
    LAB / "docs" / "handlers.md",
    DOCUMENTATION / "understand" / "what-handlers-get-wrong.md",
    *(DOCUMENTATION / "do" / "questions" / f"{name}.md" for name in ("twice", "dead-letter", "fifo")),
    DOCUMENTATION / "do" / "come-from-powertools.md",
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


def kept(file: Path) -> list[Figures]:
    """Return the rows of the last run: of `WORLD` or `ASKED`."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def keep(file: Path, rows: Sequence[Figures]) -> None:
    """Keep rows, and fill the pages with them."""
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


def fill(page: str) -> str:
    """Return a page with its generated blocks filled. Raises `KeyError` for an unknown one."""
    asked = kept(ASKED)
    writers: Mapping[str, Callable[[], str]] = {
        **{f"world {name}": partial(made, kept(WORLD)) for name, made in WORLD_TABLES.items()},
        **{f"path {one['handler']}": partial(path_block, one) for one in asked},
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


def shown_path(counterexample: str) -> list[str]:
    """Return the lines of a counterexample from its first step on, without the rows that exist before."""
    lines = [line.rstrip() for line in counterexample.splitlines()]
    first = next((number for number, line in enumerate(lines) if re.match(r" +1  ", line)), len(lines))
    return lines[first:]
