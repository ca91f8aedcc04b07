"""Slots, the plan of them, and the practices that open them: made up, exact, and the same for the same seed."""

from __future__ import annotations

import statistics
from collections import Counter
from datetime import UTC, date, datetime, time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appointments.allocation import FreeSlot, free_key_range, free_slot
from appointments.messages import DELIVERY_CHANNELS, parse_message
from demo.plan import MOST_SLOTS_UNASKED, load, make_plan, save
from demo.practices import CHANNEL_WEIGHTS, LARGEST_A_YEAR, MEDIAN_A_YEAR, Demand, synthetic_demand, synthetic_practices
from demo.slots import (
    CLOSES,
    LOCAL_TIME,
    OPENS,
    Opening,
    opening_hours,
    share_out,
    slot_items,
    working_days,
)
from oneslot.errors import BadInput

MONDAY = date(2026, 11, 23)
demands = st.lists(st.integers(1, 700_000), min_size=1, max_size=40).map(
    lambda years: [Demand(f"Z{number:05d}", year) for number, year in enumerate(years)]
)


@given(demands, st.integers(0, 5_000))
def test_slots_are_shared_exactly_and_in_proportion(practices: list[Demand], more: int) -> None:
    total = len(practices) + more
    openings = share_out(total, practices)
    assert sum(opening.slots for opening in openings) == total
    year = sum(demand.appointments for demand in practices)
    for opening in openings:
        assert abs(opening.slots - 1 - more * opening.demand.appointments / year) < 1 + 1e-6


@given(st.integers(1, 400), st.integers(1, 7), st.integers(0, 5), st.dates(date(2026, 1, 1), date(2027, 12, 31)))
def test_slot_lies_in_opening_hours_and_is_unique(slots: int, days: int, seed: int, first: date) -> None:
    opening = Opening(Demand("Z00001", 50_000), slots)
    items = list(slot_items(opening, working_days(first, days), seed))
    assert len(items) == slots
    assert len({item["slot_id"] for item in items}) == slots
    diaries: dict[str, list[tuple[str, str]]] = {}
    for item in items:
        start, end = (datetime.fromisoformat(item[name]).astimezone(LOCAL_TIME) for name in ("start", "end"))
        assert OPENS <= start.time() < end.time() <= CLOSES
        assert start.date() == end.date()
        assert start.weekday() < 5
        assert (end - start).seconds in (600, 1800)
        diaries.setdefault(item["slot_id"].rpartition("-")[2], []).append((item["start"], item["end"]))
    for diary in diaries.values():
        assert all(ends <= starts for (_, ends), (starts, _) in pairwise(diary)), "one at a time"


def test_opening_hours_follow_british_summer_time() -> None:
    assert opening_hours(date(2026, 7, 6))[0] == datetime(2026, 7, 6, 7, 0, tzinfo=UTC)
    assert opening_hours(date(2026, 11, 23))[0] == datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
    assert opening_hours(date(2026, 11, 23))[1].timetz() == time(18, 30, tzinfo=UTC)


def test_channels_divide_as_in_england() -> None:
    items = list(slot_items(Opening(Demand("Z00001", 1), 5_000), working_days(MONDAY, 5), 1))
    share = Counter(item["delivery_channel"] for item in items)
    for channel, weight in zip(DELIVERY_CHANNELS, CHANNEL_WEIGHTS, strict=True):
        assert abs(share[channel] / 5_000 - weight / sum(CHANNEL_WEIGHTS)) < 0.03


def test_a_seeded_slot_is_found_by_the_consumer() -> None:
    item = next(slot_items(Opening(Demand("Z00001", 1), 1), [MONDAY], 1))
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


def test_synthetic_demand_is_repeatable_and_of_the_national_size() -> None:
    practices = synthetic_practices(500)
    years = [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years == [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years != [demand.appointments for demand in synthetic_demand(practices, seed=2)]
    assert 0.85 < statistics.median(years) / MEDIAN_A_YEAR < 1.15
    assert max(years) <= LARGEST_A_YEAR
