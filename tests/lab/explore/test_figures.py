"""The recorded figures match the code: the small explorations give them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.explore.budgets import FULL, GROUP_RAISING, GROUPS_FULL
from lab.explore.exploration import figures
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import COMPARED
from oneslot.explorer.explorer import explore
from oneslot.explorer.scenario import ExploredSubject, Scenario

EXPLORED = json.loads((Path(__file__).parents[3] / "lab" / "results" / "explored.json").read_text())
OURS_EXPLORED = [*((scenario, OURS) for scenario in FULL), *((scenario, OURS_IN_GROUPS) for scenario in GROUPS_FULL)]
PEERS_EXPLORED = [(ONE_REQUEST, each.subject) for each in COMPARED]
ROWS = [
    *zip(OURS_EXPLORED, EXPLORED["explorations"], strict=False),
    *zip(PEERS_EXPLORED, EXPLORED["peers"], strict=False),
]
FEW_STATES = 16_000
"""The size of an exploration of a second or two."""

AGAIN = "; run: make -C lab explore"


def named(scenario: Scenario, subject: ExploredSubject) -> tuple[str, str, str]:
    return subject.name, scenario.name, scenario.size


def test_figures_cover_every_exploration() -> None:
    for made, rows in ((OURS_EXPLORED, EXPLORED["explorations"]), (PEERS_EXPLORED, EXPLORED["peers"])):
        found = [(row["subject"], row["scenario"], row["size"]) for row in rows]
        assert found == [named(*one) for one in made], "the explorations have changed" + AGAIN
        assert all(row["complete"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "row"),
    # A larger one as well, because no exploration with faults in the domain is smaller.
    [(made, row) for made, row in ROWS if row["states"] < FEW_STATES or row["scenario"] == GROUP_RAISING.name],
    ids=lambda value: " ".join(named(*value)) if isinstance(value, tuple) else "",
)
def test_small_exploration_gives_its_figures_again(made: tuple[Scenario, ExploredSubject], row: dict[str, Any]) -> None:
    found = json.loads(json.dumps(figures(explore(*made))))
    assert {**found, "seconds": 0} == {**row, "seconds": 0}, "the code, its faults or the explorer has changed" + AGAIN
