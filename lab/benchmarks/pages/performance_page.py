"""Put the figures of the last kept run of the benchmarks into lab/docs/performance.md.

`make -C lab bench WRITE=1` keeps a run and writes the page. `python -m lab.benchmarks.pages.performance_page` writes the page
from the kept figures. A test compares the page with them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks.harness.command import run_main
from lab.benchmarks.pages.tables import TITLES, Document, tables_of, targets, where

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "lab" / "docs" / "performance.md"
FIGURES = REPOSITORY / "lab" / "results" / "performance.json"
_BLOCK = re.compile(r"<!-- generated: ([a-z, ]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def fill(page: str, document: Document) -> str:
    """Return the page with every generated block rewritten. Raise `KeyError` for an unknown block."""
    writers: Mapping[str, Callable[[], str]] = {
        "where": lambda: where(document),
        "targets": lambda: targets(document),
        **{part.replace("_", " "): partial(tables_of, document, part, brief=True) for part in TITLES},
    }

    def block(found: re.Match[str]) -> str:
        return f"<!-- generated: {found[1]} -->\n\n{writers[found[1]]()}\n\n<!-- end -->\n"

    return _BLOCK.sub(block, page)


def read() -> dict[str, Any]:
    """Return the kept figures."""
    document: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return document


def write(document: Mapping[str, Any] | None = None) -> None:
    """Keep `document`, if given, and write the page from the kept figures."""
    if document is not None:
        FIGURES.write_text(json.dumps(document, separators=(",", ":")).replace("},{", "},\n{") + "\n", encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
    sys.stderr.write(f"Wrote {PAGE.relative_to(REPOSITORY)}.\n")


if __name__ == "__main__":
    sys.exit(run_main(write))
