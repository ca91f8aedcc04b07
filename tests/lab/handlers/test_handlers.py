"""The handlers that were explored: the pages show the kept figures, and a new run of ours finds the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.handlers.__main__ import ALL, explored
from lab.handlers.figures import PAGES, fill, kept
from lab.handlers.subjects import OURS, QUESTIONS, Subject

KEPT = {one["handler"]: one for one in kept()}
LONG = ("in_progress.fixed", *(subject.name for subject in OURS[-2:]))
"""The handlers with the most states."""
RUNS = [
    pytest.param(subject, marks=pytest.mark.slow) if subject.name in LONG else subject
    for subject in (*OURS, *QUESTIONS)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_the_kept_figures(page: Path) -> None:
    assert fill(page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), "run: make -C lab handlers"


def test_every_handler_has_figures() -> None:
    assert list(KEPT) == [subject.name for group in ALL for subject in group]


@pytest.mark.parametrize("subject", RUNS, ids=lambda subject: subject.name)
def test_handler_is_found_as_it_is_kept(subject: Subject) -> None:
    found = explored(subject)

    assert {name: found[name] for name in ("holds", "complete", "level", "path")} == {
        name: KEPT[subject.name][name] for name in ("holds", "complete", "level", "path")
    }


def test_public_breach_is_repeated_on_the_embedded_aws() -> None:
    assert [name for name, one in KEPT.items() if one["repository"] and not one["holds"] and not one["embedded"]] == []


def test_question_breaks_and_its_mend_holds() -> None:
    assert [KEPT[subject.name]["holds"] for subject in QUESTIONS] == [False, True] * (len(QUESTIONS) // 2)
