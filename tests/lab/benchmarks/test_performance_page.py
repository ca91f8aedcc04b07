"""lab/docs/performance.md has the kept figures, and every part."""

from __future__ import annotations

import re

import pytest

from lab.benchmarks.pages.performance_page import PAGE, fill, read
from lab.benchmarks.pages.tables import TITLES

TEXT = PAGE.read_text(encoding="utf-8")


def test_page_is_up_to_date() -> None:
    assert fill(TEXT, read()) == TEXT, "run: python -m lab.benchmarks.pages.performance_page"


def test_page_has_every_part() -> None:
    blocks = re.findall("<!-- generated: (.*) -->", TEXT)
    assert set(blocks) == {"where", "targets", *(part.replace("_", " ") for part in TITLES)}


def test_page_changes_with_a_figure() -> None:
    document = read()
    document["parts"]["growth"]["figures"][0]["calls"] = 77.5
    assert "77.5" in fill(TEXT, document)


def test_page_rejects_an_unknown_block() -> None:
    with pytest.raises(KeyError):
        fill("<!-- generated: unknown -->\n<!-- end -->\n", read())
