"""The survey: the tests that can notice a mutated function, and their order."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from lab.mutation.survey import EVERYWHERE, Survey, Surveyor

LEDGER = "oneslot/runtime/stores/dynamodb.py"

SURVEY = Survey(
    {
        "broad": [f"{LEDGER}:Ledger.claim", f"{LEDGER}:Ledger.commit", "oneslot/runtime/consumer/consumer.py:split"],
        "narrow": [f"{LEDGER}:Ledger.claim"],
        "elsewhere": ["oneslot/runtime/consumer/consumer.py:split", "oneslot/runtime/consumer/batch.py:loaded"],
        EVERYWHERE: [f"{LEDGER}:Ledger", "oneslot/runtime/consumer/consumer.py:loaded"],
    }
)


def test_function_is_judged_by_its_tests_narrowest_first() -> None:
    assert SURVEY.tests_of(LEDGER, "Ledger.claim") == ["narrow", "broad"]
    assert SURVEY.tests_of(LEDGER, "Ledger.commit") == ["broad"]


@pytest.mark.parametrize(("file", "function"), [(LEDGER, "Ledger"), (LEDGER, "module"), (LEDGER, "Ledger.never")])
def test_import_time_code_is_judged_by_all_tests(file: str, function: str) -> None:
    assert SURVEY.tests_of(file, function) == ["narrow", "broad", "elsewhere"]


def test_decorator_is_judged_by_all_tests() -> None:
    assert set(SURVEY.tests_of("oneslot/runtime/consumer/consumer.py", "loaded")) == {"narrow", "broad", "elsewhere"}


def test_survey_survives_its_text() -> None:
    assert Survey.from_json(SURVEY.to_json()) == SURVEY


def test_surveyor_sees_only_calls_into_the_core(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "mutated.py").write_text(
        "class Box:\n    def take(self):\n        def inner():\n            return 1\n        return inner()\n"
    )
    (tmp_path / "other.py").write_text("def untouched():\n    return 1\n")
    surveyor = Surveyor(str(tmp_path / "core"))
    mutated = runpy.run_path(str(tmp_path / "core" / "mutated.py"))
    other = runpy.run_path(str(tmp_path / "other.py"))
    before = sys.gettrace()
    with surveyor:
        mutated["Box"]().take()
        other["untouched"]()
    sys.settrace(before)
    assert surveyor.survey.reached[EVERYWHERE] == []
    assert surveyor.seen == {"mutated.py:Box.take", "mutated.py:Box.take.inner"}
