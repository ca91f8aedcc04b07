"""A scenario that would be explored wrongly is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.explore.scenarios import BOOK_AND_CANCEL, LAST_SLOT, ONE_REQUEST


@pytest.mark.parametrize(
    ("scenario", "change", "sentence"),
    [
        (BOOK_AND_CANCEL, {"deliveries": ((0,), (1,), (0,))}, "deliveries: equal ones must stand side by side"),
        (LAST_SLOT, {"deliveries": ((1,), (0,), (1,))}, "deliveries: equal ones must stand side by side"),
        (ONE_REQUEST, {"deliveries": ((0,), (1,))}, "deliveries: positions must be 0 to 0"),
        (ONE_REQUEST, {"deliveries": ((-1,),)}, "deliveries: positions must be 0 to 0"),
        (ONE_REQUEST, {"deliveries": ()}, "deliveries: at least one is needed"),
        (ONE_REQUEST, {"deliveries": ((0,), ())}, "deliveries: at least one is needed, each with a message"),
        (ONE_REQUEST, {"clocks": (0,)}, "clocks: give none, or one for each of the 2 deliveries"),
        (
            LAST_SLOT,
            {"clocks": (0, 1, 0), "deliveries": ((0,), (0,), (0,))},
            "deliveries: equal ones must stand side by",
        ),
        (ONE_REQUEST, {"faults": -1}, "faults: "),
        (ONE_REQUEST, {"expiries": -3}, "expiries: must be 0 to 3"),
        (ONE_REQUEST, {"expiries": 4}, "expiries: must be 0 to 3"),
    ],
)
def test_scenario_is_refused_when_an_attribute_is_invalid(scenario: Any, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        replace(scenario, **change)


def test_scenario_accepts_equal_deliveries_side_by_side() -> None:
    for deliveries in (((0,), (0,), (1,)), ((1,), (0,), (0,)), ((0, 1), (0, 1), (0,), (0,))):
        assert replace(LAST_SLOT, deliveries=deliveries).deliveries == deliveries
