"""The counterexample of the page on correctness still books twice. docs/images/booked-twice.svg was drawn from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import PEERS
from oneslot.explorer.counterexample import Counterexample, replay

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "lab" / "results" / "booked-twice.json"


def test_usual_handler_books_twice_when_one_response_is_lost() -> None:
    usual = next(peer.subject for peer in PEERS if peer.subject.name == "get, then put, with conditions")
    kept = Counterexample.from_json(KEPT.read_text(encoding="utf-8"))

    replayed = replay(kept, replace(ONE_REQUEST, deliveries=((0,), (0,)), faults=1, expiries=0), usual)

    assert [line for line in replayed.broken if line.startswith("I1 ")]
    assert sum("response lost; the SDK sends it again" in line for line in replayed.lines) == 1
    assert not any("crash" in line for line in replayed.lines)
