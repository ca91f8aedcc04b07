"""The plan: its practices, its default number of slots, and the file that `send` reads."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from demo.plan import MOST_SLOTS_UNASKED, load, make_plan, read_candidates, save
from oneslot.errors import BadInput
from tests.demo.test_practices import HEADER, line

MONDAY = date(2026, 11, 23)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Three active practices; demand for two of them and for one that is not active."""
    practices, demand = tmp_path / "epraccur.csv", tmp_path / "demand.csv"
    practices.write_text("".join(line(code) for code in ("A81001", "A81002", "A81003")))
    demand.write_text(HEADER + "".join(f"{code},1,900,6,2,1,0\n" for code in ("A81001", "A81002", "B99999")))
    return practices, demand


def test_only_practices_of_both_files_take_part(files: tuple[Path, Path]) -> None:
    candidates = read_candidates(*files, seed=1)
    assert [demand.practice for demand in candidates.demands] == ["A81001", "A81002"]
    assert candidates.note == "3 active GP practices in epraccur.csv, 2 of them with demand in demand.csv"


def test_each_file_does_without_the_other(files: tuple[Path, Path]) -> None:
    practices, demand = files
    assert len(read_candidates(practices, None, seed=1).demands) == 3
    assert len(read_candidates(None, demand, seed=1).demands) == 3
    assert read_candidates(None, None, seed=1).note == "12 synthetic practices"
    assert read_candidates(None, None, seed=1, count=1).note == "1 synthetic practice"


def test_a_choice_of_practices_is_repeatable(files: tuple[Path, Path]) -> None:
    chosen = [read_candidates(files[0], None, seed, count=1).demands for seed in (1, 1, 2, 3, 4)]
    assert chosen[0] == chosen[1]
    assert len({demands[0].practice for demands in chosen}) > 1
    assert len(read_candidates(files[0], None, 1, at_most=99).demands) == 3


def test_more_practices_than_there_are_cannot_take_part(files: tuple[Path, Path]) -> None:
    with pytest.raises(BadInput, match="4 practices were asked for, and there are fewer: 3 active GP practices"):
        read_candidates(files[0], None, 1, count=4)


def test_files_without_a_common_practice_are_refused(files: tuple[Path, Path]) -> None:
    files[1].write_text(HEADER + "B99999,1,900,6,2,1,0\n")
    with pytest.raises(BadInput, match="have no practice in common"):
        read_candidates(*files, seed=1)


def test_slots_are_made_within_reason() -> None:
    demands = read_candidates(None, None, 1, count=30).demands
    assert make_plan(demands, MONDAY, 5, None, 1).slots == MOST_SLOTS_UNASKED
    assert make_plan(demands, MONDAY, 5, 77, 1).slots == 77
    assert len(list(make_plan(demands, MONDAY, 5, 77, 1).items())) == 77
    with pytest.raises(BadInput, match="29 slots are too few for 30 practices"):
        make_plan(demands, MONDAY, 5, 29, 1)


def test_what_was_seeded_is_noted_for_its_stack_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "seeded.json"
    plan = make_plan(read_candidates(None, None, 1).demands, MONDAY, 5, 100, 1)
    assert load(path, "this stack") is None
    save(plan, path, "this stack")
    assert load(path, "this stack") == plan
    assert load(path, "the stack before it, at the same port") is None
    for invalid in ("{", "[]", "{}", '{"target": "this stack"}', '{"target": "this stack", "practices": [7]}'):
        path.write_text(invalid)
        with pytest.raises(BadInput, match="is not a valid plan"):
            load(path, "this stack")
