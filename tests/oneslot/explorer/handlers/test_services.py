"""Answers of services that depend on the time, for handlers that do not read the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.verdict import Result

HOUR_AND_A_HALF = 5_400


def explored(handler: str, visibility: int, **options: Any) -> Result:
    return explore(
        f"subjects.{handler}",
        messages=[{"order": "o-1"}],
        tables={"orders": "id"},
        path=Path(__file__).parent,
        visibility=visibility,
        **options,
    )


@pytest.mark.parametrize(
    ("handler", "visibility", "holds"),
    [
        ("add_under_token", 30, True),
        ("add_under_token", HOUR_AND_A_HALF, False),
        ("start_at_a_new_time", 30, False),
    ],
)
def test_time_passes_when_an_answer_depends_on_it(handler: str, visibility: int, holds: bool) -> None:
    assert explored(handler, visibility).holds is holds


@pytest.mark.parametrize(("visibility", "sent_twice"), [(30, False), (HOUR_AND_A_HALF, True)])
def test_time_passes_when_a_deduplication_id_may_be_forgotten(visibility: int, sent_twice: bool) -> None:
    assert bool(explored("send_under_deduplication_id", visibility).outside) is sent_twice
