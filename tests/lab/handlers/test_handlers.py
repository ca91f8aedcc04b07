"""The pages show the kept figures of their handlers, and a new run finds the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.handlers.figures import ASKED, PAGES, fill, kept
from lab.handlers.questions.__main__ import HANDLERS, explored

LONG = "in_progress.fixed"
"""The handler with the most states."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_the_kept_figures(page: Path) -> None:
    assert fill(page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), "run: make -C lab handlers"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == LONG else name for name in HANDLERS]
)
def test_handler_is_found_as_it_is_kept(name: str) -> None:
    (row,) = (one for one in kept(ASKED) if one["handler"] == name)

    found = explored(name)

    assert {key: found[key] for key in ("holds", "complete", "path")} == {
        key: row[key] for key in ("holds", "complete", "path")
    }


def test_each_question_has_a_handler_that_breaks_and_a_fixed_one_that_holds() -> None:
    assert [one["holds"] for one in kept(ASKED)] == [False, True] * (len(HANDLERS) // 2)
