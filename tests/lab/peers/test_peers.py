"""The peers: the explorer finds each one's mistake in the budget of the documentation, and none of ours."""

from __future__ import annotations

import runpy
from dataclasses import replace

import pytest

from lab.explore.exploration import figures
from lab.explore.scenarios import ONE_REQUEST
from lab.figures.picture import peers_picture
from lab.figures.tables import peers_table
from lab.peers import powertools
from lab.peers.peers import CONTROL, PEERS, Peer
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.execution.process import LEASE_MS
from oneslot.explorer.explorer import Explorer, explore

FAST_FIRST = [PEERS[2], *(pytest.param(peer, marks=pytest.mark.slow) for peer in PEERS if peer is not PEERS[2])]


@pytest.mark.parametrize("peer", FAST_FIRST, ids=lambda peer: peer.subject.name)
def test_peer_breaks_its_known_laws(peer: Peer) -> None:
    exploration = explore(ONE_REQUEST, peer.subject)
    assert set(exploration.laws_broken) == peer.breaks
    assert 0 < exploration.violating < exploration.schedules


@pytest.mark.slow
def test_ours_breaks_no_law_in_the_peers_budget() -> None:
    exploration = explore(ONE_REQUEST, CONTROL)
    assert exploration.violating == 0
    assert exploration.schedules > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.subject.name)
def test_replay_breaks_the_laws_of_the_counterexample(peer: Peer) -> None:
    explorer = Explorer(ONE_REQUEST, peer.subject)
    breach = explorer.run(True, lambda *_: None).breaches[0]
    kept = counterexample(explorer.system, breach)
    told = replay(kept, ONE_REQUEST, peer.subject)
    assert set(breach.laws) <= set(told.broken)
    assert len(kept.moves) == len(breach.path) - 1 <= 10


def test_peer_breaks_no_law_without_faults() -> None:
    """The comparison is fair: without faults each peer keeps its promise."""
    for peer in PEERS:
        scenario = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)
        assert explore(scenario, peer.subject).laws_broken == ()


def test_powertools_has_our_clock_when_its_peer_is_imported_twice() -> None:
    """The explorer of handlers imports the peer again."""
    runpy.run_path(powertools.__file__)
    scenario = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)

    explorer = Explorer(scenario, PEERS[3].subject)
    explorer.run(False, lambda *_: None)

    lease_end = f'"in_progress_expiration": {{"N": "{scenario.clock(0) + LEASE_MS}"}}'
    worlds = [explorer.system.worlds[state.world].text for state in explorer.states]
    assert sum(lease_end in world for world in worlds) == len(worlds) - 2  # not before the claim


@pytest.mark.slow
def test_table_and_picture_show_the_figures() -> None:
    found = [figures(explore(ONE_REQUEST, subject)) for subject in (PEERS[4].subject, CONTROL)]
    table, picture = peers_table(found), peers_picture(found)
    for one in found:
        assert f"{one['schedules']:,}" in table
        assert f"{one['violating']:,} of {one['schedules']:,}" in picture
        assert one["subject"] in table
    assert 'class="good"' in picture
    assert "prefers-color-scheme: dark" in picture
