"""`python -m lab.explore`: when its results hold, what it writes, and the options that it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.explore.__main__ import explore
from lab.explore.exploration import Explored, Results
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import PEERS
from oneslot.explorer.counterexample import Counterexample, counterexample
from oneslot.explorer.explorer import ExplorationFigures, Explorer
from oneslot.explorer.scenario import ExploredSubject

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

    answer = CliRunner().invoke(explore, ["--save", str(tmp_path)], standalone_mode=False)

    assert answer.return_value == 1
    kept = {path.name: Counterexample.from_json(path.read_text()) for path in tmp_path.iterdir()}
    assert len(kept) == sum(len(one.counterexamples) for one in ours) >= 2
    assert {one.expiries for one in kept.values()} == {0, 1}
    assert "acquire-mark-release-one-request-k2-f1-t0-1.json" in kept
    assert "one request (K=2 F=1 T=0): " in answer.output
    assert "one request (K=2 F=1 T=1): " in answer.output
