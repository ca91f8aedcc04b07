"""The table of named defects: it fits the code, every law and every regression is in it, and its runner notices what lives."""

import ast
from dataclasses import replace

import pytest

from demo.declared import CONSUMER
from lab.laws import OF_CALLS, OF_PROCESSES
from lab.mutants.__main__ import judge
from lab.mutants.__main__ import ROOT, Edit, Outdated, read_edits
from lab.mutants.search import QUICK_LOOK
from lab.simulation.run import FOLDER

EDITS = list(read_edits())


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.defect)
def test_edit_fits_the_code(edit: Edit) -> None:
    assert ast.parse(edit.apply((ROOT / edit.file).read_text()))


def test_every_law_has_a_defect_that_breaks_it() -> None:
    assert {edit.law for edit in EDITS} - {QUICK_LOOK} == {law.name for law in CONSUMER.laws} | {*OF_CALLS, *OF_PROCESSES}


def test_every_regression_has_a_defect_that_breaks_it_again() -> None:
    replayed = {edit.search.removeprefix("replay ") for edit in EDITS if edit.search.startswith("replay ")}
    assert replayed == {path.stem for path in FOLDER.glob("*.json")}


def test_edit_is_outdated_when_its_text_is_gone() -> None:
    with pytest.raises(Outdated):
        EDITS[0].apply("")


@pytest.mark.lab
def test_runner_notices_a_defect_that_lives() -> None:
    chosen = [
        next(edit for edit in EDITS if edit.search == search)
        for search in ("replay killed-holder", "explore a released claim")
    ]
    harmless = replace(chosen[1], defect="harmless", after=chosen[1].before)

    assert judge([*chosen, harmless]) == ["harmless: explore a released claim finds nothing, and not I9"]
