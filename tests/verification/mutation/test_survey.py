"""The survey: which tests can notice that a function was spoiled, and in which order they are asked."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from verification.mutation.survey import EVERYWHERE, Survey, Surveyor

LEDGER = "oneslot/runtime/stores/dynamodb.py"

SURVEY = Survey(
    {
        "broad": [f"{LEDGER}:Ledger.claim", f"{LEDGER}:Ledger.commit", "oneslot/runtime/consumer/batch.py:split"],
        "narrow": [f"{LEDGER}:Ledger.claim"],
        "elsewhere": ["oneslot/runtime/consumer/batch.py:split", "oneslot/runtime/consumer/batch.py:loaded"],
        EVERYWHERE: [f"{LEDGER}:Ledger", "oneslot/runtime/consumer/batch.py:loaded"],
    }
)


def test_a_function_is_judged_by_the_tests_that_reach_it_the_narrowest_first() -> None:
    """The others cannot notice anything."""
    assert SURVEY.tests_of(LEDGER, "Ledger.claim") == ["narrow", "broad"]
    assert SURVEY.tests_of(LEDGER, "Ledger.commit") == ["broad"]


@pytest.mark.parametrize(("file", "function"), [(LEDGER, "Ledger"), (LEDGER, "module"), (LEDGER, "Ledger.never")])
def test_what_is_run_while_files_are_loaded_may_be_noticed_by_all(file: str, function: str) -> None:
    """Those that reach the file come first; so it is for a function that no test reaches."""
    assert SURVEY.tests_of(file, function) == ["narrow", "broad", "elsewhere"]


def test_what_is_reached_at_loading_and_in_a_test_may_be_noticed_by_all() -> None:
    """A decorator, for example."""
    assert set(SURVEY.tests_of("oneslot/runtime/consumer/batch.py", "loaded")) == {"narrow", "broad", "elsewhere"}


def test_a_survey_survives_the_way_through_text() -> None:
    assert Survey.from_json(SURVEY.to_json()) == SURVEY


def test_calls_into_the_core_are_seen_and_others_are_not(tmp_path: Path) -> None:
    """By file, class and function; nested functions under their outer ones."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "spoiled.py").write_text(
        "class Box:\n    def take(self):\n        def inner():\n            return 1\n        return inner()\n"
    )
    (tmp_path / "other.py").write_text("def untouched():\n    return 1\n")
    surveyor = Surveyor(str(tmp_path / "core"))
    spoiled = runpy.run_path(str(tmp_path / "core" / "spoiled.py"))
    other = runpy.run_path(str(tmp_path / "other.py"))
    before = sys.gettrace()
    with surveyor:
        spoiled["Box"]().take()
        other["untouched"]()
    sys.settrace(before)
    assert surveyor.survey.reached[EVERYWHERE] == []
    assert surveyor.seen == {"spoiled.py:Box.take", "spoiled.py:Box.take.inner"}
