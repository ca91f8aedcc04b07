"""The figures that are checked in are of the code and of the faults as they are: the small ones are found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import Scenario, Subject
from verification.figures.exploration import figures
from verification.peers.peers import CONTROL, PEERS
from verification.scenarios.budgets import FULL, GROUPS_FULL
from verification.scenarios.group_scenarios import GROUP_RAISING
from verification.scenarios.ours import OURS, OURS_IN_GROUPS
from verification.scenarios.scenarios import ONE_REQUEST

EXPLORED = json.loads((Path(__file__).parents[3] / "docs" / "proof" / "explored.json").read_text())
OURS_EXPLORED = [*((scenario, OURS) for scenario in FULL), *((scenario, OURS_IN_GROUPS) for scenario in GROUPS_FULL)]
PEERS_EXPLORED = [(ONE_REQUEST, subject) for subject in (*(exhibit.subject for exhibit in PEERS), CONTROL)]
ROWS = [
    *zip(OURS_EXPLORED, EXPLORED["explorations"], strict=False),
    *zip(PEERS_EXPLORED, EXPLORED["peers"], strict=False),
]
FEW_STATES = 16_000
"""Explored in a second or two."""

AGAIN = "; run: make explore"


def named(scenario: Scenario, subject: Subject) -> tuple[str, str, str]:
    return subject.name, scenario.name, scenario.size


def test_they_are_of_all_explorations_there_are() -> None:
    """In their order, each to its end."""
    for made, rows in ((OURS_EXPLORED, EXPLORED["explorations"]), (PEERS_EXPLORED, EXPLORED["peers"])):
        found = [(row["subject"], row["scenario"], row["size"]) for row in rows]
        assert found == [named(*one) for one in made], "the explorations have changed" + AGAIN
        assert all(row["complete"] for row in rows)


@pytest.mark.parametrize(
    ("made", "row"),
    # One of the larger ones as well: of faults in the domain none is smaller.
    [(made, row) for made, row in ROWS if row["states"] < FEW_STATES or row["scenario"] == GROUP_RAISING.name],
    ids=lambda value: " ".join(named(*value)) if isinstance(value, tuple) else "",
)
def test_the_small_ones_are_found_again(made: tuple[Scenario, Subject], row: dict[str, Any]) -> None:
    """Every figure but the seconds. A fault, a law or a call more or less makes others."""
    found = json.loads(json.dumps(figures(explore(*made))))
    assert {**found, "seconds": 0} == {**row, "seconds": 0}, "the code, its faults or the explorer has changed" + AGAIN
