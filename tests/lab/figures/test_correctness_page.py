"""docs/understand/correctness.md and the README have the kept figures."""

from __future__ import annotations

import json

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
