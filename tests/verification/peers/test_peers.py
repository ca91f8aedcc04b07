"""The museum: the prover must find each exhibit's mistake, in the budget of the table in the docs, and none in ours there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.explorer import Explorer, explore
from verification.figures.exploration import figures
from verification.figures.picture import peers_picture
from verification.figures.tables import peers_table
from verification.peers.peers import CONTROL, PEERS, Peer
from verification.scenarios.scenarios import ONE_REQUEST


@pytest.mark.parametrize("exhibit", PEERS, ids=lambda exhibit: exhibit.subject.name)
def test_each_exhibit_is_found_out(exhibit: Peer) -> None:
    """Two deliveries, one fault, one expiry: exactly the laws that it is known to break."""
    exploration = explore(ONE_REQUEST, exhibit.subject)
    assert set(exploration.laws_broken) == exhibit.breaks
    assert 0 < exploration.violating < exploration.schedules


def test_ours_breaks_none_in_the_same_budget() -> None:
    """The row of the table that matters."""
    exploration = explore(ONE_REQUEST, CONTROL)
    assert exploration.violating == 0
    assert exploration.schedules > 10_000


@pytest.mark.parametrize("exhibit", PEERS, ids=lambda exhibit: exhibit.subject.name)
def test_a_counterexample_breaks_the_same_laws_when_it_is_replayed(exhibit: Peer) -> None:
    """From the path alone, on a fresh start of the code."""
    explorer = Explorer(ONE_REQUEST, exhibit.subject)
    breach = explorer.run(True, lambda *_: None).breaches[0]
    kept = counterexample(explorer.system, breach)
    told = replay(kept, ONE_REQUEST, exhibit.subject)
    assert set(breach.laws) <= set(told.broken)
    assert len(kept.moves) == len(breach.path) - 1 <= 10


def test_without_any_fault_powertools_books_once() -> None:
    """The exhibits are fair: where nothing goes wrong, and one delivery follows another, they do what they promise."""
    for exhibit in PEERS:
        scenario = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)
        assert explore(scenario, exhibit.subject).laws_broken == ()


def test_the_table_and_the_picture_say_what_was_measured() -> None:
    """A row and a bar for each, with the figures; no bar of violations for ours."""
    found = [figures(explore(ONE_REQUEST, subject)) for subject in (PEERS[4].subject, CONTROL)]
    table, picture = peers_table(found), peers_picture(found)
    for one in found:
        assert f"{one['schedules']:,}" in table
        assert f"{one['violating']:,} of {one['schedules']:,}" in picture
        assert one["subject"] in table
    assert 'class="good"' in picture
    assert "prefers-color-scheme: dark" in picture
