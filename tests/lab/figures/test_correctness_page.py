"""docs/understand/correctness.md and the README have the kept figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.figures.correctness_page import PAGE, REPOSITORY, fill

TEXT = PAGE.read_text()


def test_page_has_the_current_figures() -> None:
    assert fill(TEXT) == TEXT, "run: make figures"


def test_readme_has_the_current_totals() -> None:
    explored = json.loads((REPOSITORY / "lab" / "results" / "explored.json").read_text())
    assert explored["holds"]
    readme = " ".join((REPOSITORY / "README.md").read_text().split())
    for name in ("schedules", "states", "executions"):
        assert f"{explored['totals'][name]:,}" in readme


def test_fill_names_the_command_when_figures_are_missing(tmp_path: Path) -> None:
    page = fill("<!-- generated: soak -->\nold\n<!-- end -->\n", tmp_path)
    assert "Run `make -C lab soak`" in page
    assert "old" not in page


def test_fill_raises_when_a_block_is_unknown() -> None:
    with pytest.raises(KeyError):
        fill("<!-- generated: by an unknown command -->\n<!-- end -->\n")
