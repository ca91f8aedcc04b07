"""`python -m lab.explore`: when its results hold, what it writes; and the recorded figures match the code."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.explore import __main__ as command
from lab.explore.budgets import FULL, GROUP_RAISING, GROUPS_FULL
from lab.explore.exploration import Explored, Results, figures
from lab.explore.ours import OURS, OURS_IN_GROUPS
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import COMPARED, PEERS
from oneslot.explorer.counterexample import Counterexample, counterexample
from oneslot.explorer.explorer import ExplorationFigures, Explorer
from oneslot.explorer.scenario import ExploredSubject, Scenario

FINE = ExplorationFigures("Oneslot", "one request", "K=2 F=1 T=1", 9, 0, 9, 9, 9, 9, 9, 0.1, complete=True)
OURS_FINE = (Explored(FINE, ()),)
PEERS_FOUND = tuple(Explored(replace(FINE, violating=3, laws_broken=tuple(sorted(peer.breaks))), ()) for peer in PEERS)
RESULTS = Results(OURS_FINE, (*PEERS_FOUND, *OURS_FINE), 0.1)
EXPLORE_ALL = "lab.explore.exploration.explore_all"


def changed(**figures: Any) -> tuple[Explored, ...]:
    return (Explored(replace(FINE, **figures), ()),)


def test_results_hold_when_all_rows_are_as_expected() -> None:
    assert RESULTS.holds


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ours": ()}, id="nothing of ours"),
        pytest.param({"ours": (*OURS_FINE, *changed(laws_broken=("I1",)))}, id="a broken law of ours"),
        pytest.param({"ours": (*OURS_FINE, *changed(complete=False))}, id="an incomplete exploration of ours"),
        pytest.param({"peers": ()}, id="no peers"),
        pytest.param({"peers": PEERS_FOUND}, id="no control"),
        pytest.param({"peers": (*PEERS_FOUND, *changed(laws_broken=("I1",), violating=9))}, id="the control breaks"),
        pytest.param({"peers": (*PEERS_FOUND, *changed(complete=False))}, id="an incomplete control"),
        pytest.param({"peers": (*OURS_FINE, *PEERS_FOUND[1:], *OURS_FINE)}, id="a peer that breaks nothing"),
    ],
)
def test_results_do_not_hold_when_a_row_differs(change: dict[str, Any]) -> None:
    assert not replace(RESULTS, **change).holds


def found(subject: ExploredSubject, expiries: int) -> Explored:
    """An exploration that breaks a law, with its path."""
    explorer = Explorer(replace(ONE_REQUEST, expiries=expiries), subject)
    exploration = explorer.run(False, lambda *_: None)
    return Explored(exploration, tuple(counterexample(explorer.system, breach) for breach in exploration.breaches))


def test_save_keeps_the_counterexamples_of_each_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = (found(PEERS[2].subject, 0), found(PEERS[2].subject, 1))
    monkeypatch.setattr(EXPLORE_ALL, lambda *_: (ours, (*PEERS_FOUND, *OURS_FINE)))

    answer = CliRunner().invoke(command.explore, ["--save", str(tmp_path)], standalone_mode=False)

    assert answer.return_value == 1
    kept = {path.name: Counterexample.from_json(path.read_text()) for path in tmp_path.iterdir()}
    assert len(kept) == sum(len(one.counterexamples) for one in ours) >= 2
    assert {one.expiries for one in kept.values()} == {0, 1}
    assert "acquire-mark-release-one-request-k2-f1-t0-1.json" in kept
    assert "one request (K=2 F=1 T=0): " in answer.output
    assert "one request (K=2 F=1 T=1): " in answer.output


# The small explorations give the recorded figures again.


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
    found = json.loads(json.dumps(figures(Explorer(*made).run())))
    assert {**found, "seconds": 0} == {**row, "seconds": 0}, "the code, its faults or the explorer has changed" + AGAIN
