"""docs/performance.md has the figures that are kept, and speaks of what there is."""

from __future__ import annotations

import re

import pytest

from benchmarks.pages.performance_page import PAGE, fill, read
from benchmarks.pages.tables import TITLES

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_generated_parts_are_up_to_date() -> None:
    assert fill(TEXT, read()) == TEXT, "run: python -m benchmarks.pages.performance_page"


def test_every_part_is_on_the_page() -> None:
    blocks = re.findall("<!-- generated: (.*) -->", TEXT)
    assert set(blocks) == {"where", "targets", *(part.replace("_", " ") for part in TITLES)}


def test_another_figure_changes_the_page() -> None:
    document = read()
    document["parts"]["growth"]["figures"][0]["calls"] = 77.5
    assert "77.5" in fill(TEXT, document)


def test_an_unknown_block_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("<!-- generated: by nobody -->\n<!-- end -->\n", read())
