"""The explorer against a plain enumeration of the same schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.explore.ours import OURS
from lab.explore.plain import anonymous, enumerate_schedules
from lab.explore.scenarios import (
    APART,
    BATCH_SIDE_BY_SIDE,
    BOOK_AND_CANCEL,
    ONE_REQUEST,
    OTHER_CONTENT,
    SENT_TWICE,
    UNKNOWN_PRACTICE,
)
from lab.peers.peers import PEERS
from oneslot.explorer.explorer import Explorer, explore
from oneslot.explorer.scenario import ExploredSubject, Scenario

ONE, TWO = ((0,),), ((0,), (0,))


def slow(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("scenario", "subject"),
    [
        slow(replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=1), OURS),
        slow(replace(ONE_REQUEST, deliveries=ONE, faults=2, expiries=0), OURS),
        slow(replace(ONE_REQUEST, deliveries=TWO, faults=0, expiries=1), OURS),
        slow(replace(OTHER_CONTENT, faults=0, expiries=0), OURS),
        (replace(SENT_TWICE, deliveries=((0, 1),), faults=1, expiries=0), OURS),
        (replace(BATCH_SIDE_BY_SIDE, deliveries=((0, 1),), faults=0, expiries=0), OURS),
        slow(replace(APART, faults=0, expiries=0), OURS),
        (replace(APART, faults=0, expiries=0, exempt=()), OURS),
        slow(replace(ONE_REQUEST, deliveries=TWO, faults=0, expiries=0), PEERS[0].subject),
        (replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=1), PEERS[2].subject),
        (replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=0), PEERS[3].subject),
    ],
    ids=lambda value: f"{value.name} {getattr(value, 'size', '')}".strip(),
)
def test_explorer_counts_as_the_plain_enumeration(scenario: Scenario, subject: ExploredSubject) -> None:
    explorer = Explorer(scenario, subject)
    exploration = explorer.run(False, lambda *_: None)
    worlds = explorer.system.worlds
    ends = frozenset(
        (anonymous(worlds[one.world].text, scenario), one.expiries, one.faults, one.acknowledged)
        for one in (explorer.states[number] for number in explorer.ends)
    )
    plain = enumerate_schedules(scenario, subject)
    if subject is not OURS:  # the comparison covers violating schedules and others
        assert 0 < plain.violating < plain.schedules
    assert (exploration.schedules, exploration.violating, ends) == (plain.schedules, plain.violating, plain.ends)


def test_exploration_is_deterministic() -> None:
    scenario = replace(BOOK_AND_CANCEL, deliveries=((0,), (1,)), expiries=0)
    first, second = (Explorer(scenario, OURS) for _ in range(2))
    first.run(False, lambda *_: None)
    second.run(False, lambda *_: None)
    assert first.states == second.states


@pytest.mark.slow
def test_explorer_reports_progress() -> None:
    heard: list[tuple[int, int]] = []
    explore(UNKNOWN_PRACTICE, OURS, progress=lambda states, waiting: heard.append((states, waiting)))
    assert [states for states, _ in heard] == sorted({states for states, _ in heard})
    assert all(waiting >= 0 for _, waiting in heard)


def test_budget_is_looked_at_after_each_state() -> None:
    looks = 0

    def over() -> bool:
        nonlocal looks
        looks += 1
        return looks == 3

    explored = Explorer(ONE_REQUEST, OURS).run(True, lambda *_: None, over)

    assert (looks, explored.complete) == (3, False)
