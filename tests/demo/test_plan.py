"""The plan: its default number of slots, and the file that `send` reads."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from demo.plan import MOST_SLOTS_UNASKED, load, make_plan, save
from demo.practices import synthetic_demand, synthetic_practices
from oneslot.errors import BadInput

MONDAY = date(2026, 11, 23)


def test_slots_are_made_within_reason() -> None:
    demands = list(synthetic_demand(synthetic_practices(30), 1))
    assert make_plan(demands, MONDAY, 5, None, 1).slots == MOST_SLOTS_UNASKED
    assert make_plan(demands, MONDAY, 5, 77, 1).slots == 77
    assert len(list(make_plan(demands, MONDAY, 5, 77, 1).items())) == 77
    with pytest.raises(BadInput, match="29 slots are too few for 30 practices"):
        make_plan(demands, MONDAY, 5, 29, 1)


def test_what_was_seeded_is_noted_for_its_stack_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "seeded.json"
    plan = make_plan(list(synthetic_demand(synthetic_practices(12), 1)), MONDAY, 5, 100, 1)
    assert load(path, "this stack") is None
    save(plan, path, "this stack")
    assert load(path, "this stack") == plan
    assert load(path, "the stack before it, at the same port") is None
    for invalid in ("{", "[]", "{}", '{"target": "this stack"}', '{"target": "this stack", "practices": [7]}'):
        path.write_text(invalid)
        with pytest.raises(BadInput, match="is not a valid plan"):
            load(path, "this stack")
