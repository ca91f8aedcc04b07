"""The peers: the explorer finds each one's mistake in the budget of the documentation."""

from dataclasses import replace

import pytest

from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import PEERS, Peer
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.explorer import Explorer

FAST_FIRST = [PEERS[2], *(pytest.param(peer, marks=pytest.mark.slow) for peer in PEERS if peer is not PEERS[2])]


@pytest.mark.parametrize("peer", FAST_FIRST, ids=lambda peer: peer.subject.name)
def test_peer_breaks_its_known_laws(peer: Peer) -> None:
    exploration = Explorer(ONE_REQUEST, peer.subject).run()
    assert set(exploration.laws_broken) == peer.breaks
    assert 0 < exploration.violating < exploration.schedules


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.subject.name)
def test_replay_breaks_the_laws_of_the_counterexample(peer: Peer) -> None:
    explorer = Explorer(ONE_REQUEST, peer.subject)
    breach = explorer.run(True).breaches[0]
    kept = counterexample(explorer.system, breach)
    told = replay(kept, ONE_REQUEST, peer.subject)
    assert set(breach.laws) <= set(told.broken)
    assert len(kept.moves) == len(breach.path) - 1 <= 10


def test_peer_breaks_no_law_without_faults() -> None:
    """The comparison is fair: without faults each peer keeps its promise."""
    for peer in PEERS:
        scenario = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)
        assert Explorer(scenario, peer.subject).run().laws_broken == ()
