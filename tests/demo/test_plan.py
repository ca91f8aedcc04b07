"""The plan: slots of a week, exact in number, within opening hours, and the same for the same seed."""

from datetime import UTC, date, datetime, time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appointments.allocation import FreeSlot, free_key_range, free_slot
from appointments.messages import parse_message
from demo.plan import CLOSES, LOCAL_TIME, OPENS, load, make_plan, opening_hours, save
from oneslot.errors import BadInput

MONDAY = date(2026, 11, 23)


@given(st.integers(1, 40), st.integers(0, 1_000), st.integers(0, 5), st.sampled_from([MONDAY, date(2026, 3, 30)]))
def test_slot_lies_in_opening_hours_and_is_unique(practices: int, more: int, seed: int, monday: date) -> None:
    plan = make_plan(practices, practices + more, seed, monday)
    items = list(plan.items())
    assert len(items) == plan.slots == practices + more
    assert len({(item["practice"], item["slot_id"]) for item in items}) == len(items)
    assert {item["practice"] for item in items} == plan.practices.keys()
    assert items == list(make_plan(practices, practices + more, seed, monday).items())
    diaries: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for item in items:
        start, end = (datetime.fromisoformat(item[name]).astimezone(LOCAL_TIME) for name in ("start", "end"))
        assert OPENS <= start.time() < end.time() <= CLOSES
        assert start.date() in plan.days
        diary = diaries.setdefault((item["practice"], item["slot_id"].rpartition("-")[2]), [])
        diary.append((item["start"], item["end"]))
    for diary in diaries.values():
        assert all(ends <= starts for (_, ends), (starts, _) in pairwise(sorted(diary))), "one at a time"


def test_opening_hours_follow_british_summer_time() -> None:
    assert opening_hours(date(2026, 7, 6))[0] == datetime(2026, 7, 6, 7, 0, tzinfo=UTC)
    assert opening_hours(date(2026, 11, 23))[1].timetz() == time(18, 30, tzinfo=UTC)


def test_seeded_slot_is_found_by_the_consumer() -> None:
    item = next(make_plan(1, 1, 1, MONDAY).items())
    body = {
        "type": "book",
        "practice": "Z00001",
        "nhs_number": "9990000018",
        "not_before": "2026-11-23T08:00:00+00:00",
        "not_after": "2026-11-23T18:30:00+00:00",
        "delivery_channel": item["delivery_channel"],
        "service_type": item["service_type"],
    }
    request = parse_message("m-1", "hash", body)
    first, last = free_key_range(request, datetime(2026, 11, 20, tzinfo=UTC))  # type: ignore[arg-type]
    assert first <= item["free_key"] < last
    assert free_slot(request, item["free_key"]) == FreeSlot(item["slot_id"], item["start"], item["end"])  # type: ignore[arg-type]


def test_plan_is_refused_when_a_practice_would_have_no_slot() -> None:
    with pytest.raises(BadInput, match="29 slots are too few for 30 practices"):
        make_plan(30, 29, 1)


def test_what_was_seeded_is_noted_for_its_stack_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "seeded.json"
    plan = make_plan(12, 100, 1, MONDAY)
    assert load(path, "this stack") is None
    save(plan, path, "this stack")
    assert load(path, "this stack") == plan
    assert load(path, "the stack before it, at the same port") is None
    for invalid in ("{", "[]", "{}", '{"target": "this stack"}', '{"target": "this stack", "practices": [7]}'):
        path.write_text(invalid)
        with pytest.raises(BadInput, match="is not a valid plan"):
            load(path, "this stack")
