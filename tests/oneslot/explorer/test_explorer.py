"""The explorer against enumerations that have nothing clever in them, and against slower ways to run the same code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oneslot.explorer.explorer import Exploration, Explorer, explore
from oneslot.explorer.scenario import Scenario, Subject
from oneslot.explorer.world import InMemoryServices
from tests.oneslot.explorer.ledger_backends import moto_services, without_messages
from verification.peers.peers import PEERS
from verification.scenarios.budgets import SHORT
from verification.scenarios.ours import OURS, botocore_program
from verification.scenarios.plain import anonymous, enumerate_schedules
from verification.scenarios.practice import TABLES
from verification.scenarios.scenarios import (
    APART,
    BATCH_SIDE_BY_SIDE,
    BOOK_AND_CANCEL,
    LAST_SLOT,
    ONE_REQUEST,
    OTHER_CONTENT,
    SENT_TWICE,
    UNKNOWN_PRACTICE,
)

ONE, TWO = ((0,),), ((0,), (0,))


def graph(scenario: Scenario, subject: Subject) -> tuple[Exploration, set[tuple[str, int, int, int, int]]]:
    """An exploration's figures, and its states, all names exchanged at will."""
    explorer = Explorer(scenario, subject)
    exploration = explorer.run(False, lambda *_: None)
    return exploration, states(explorer, scenario)


def states(explorer: Explorer, scenario: Scenario) -> set[tuple[str, int, int, int, int]]:
    """The worlds of an exploration with what was left of its budget."""
    worlds = explorer.system.worlds
    return {
        (anonymous(worlds[one.world].text, scenario), one.expiries, one.faults, one.acknowledged, len(one.network))
        for one in explorer.states
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "subject"),
    [
        (replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=1), OURS),
        (replace(ONE_REQUEST, deliveries=ONE, faults=2, expiries=0), OURS),
        (replace(ONE_REQUEST, deliveries=TWO, faults=0, expiries=1), OURS),
        (replace(OTHER_CONTENT, faults=0, expiries=0), OURS),
        (replace(SENT_TWICE, deliveries=((0, 1),), faults=1, expiries=0), OURS),
        (replace(BATCH_SIDE_BY_SIDE, deliveries=((0, 1),), faults=0, expiries=0), OURS),
        (replace(APART, faults=0, expiries=0), OURS),
        (replace(APART, faults=0, expiries=0, exempt=()), OURS),
        (replace(ONE_REQUEST, deliveries=TWO, faults=0, expiries=0), PEERS[0].subject),
        (replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=1), PEERS[2].subject),
        (replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=0), PEERS[3].subject),
    ],
    ids=lambda value: f"{value.name} {getattr(value, 'size', '')}".strip(),
)
def test_pruning_symmetry_and_memory_change_nothing(scenario: Scenario, subject: Subject) -> None:
    """Same number of schedules, same number of violating ones, same end states as with every schedule run by itself."""
    explorer = Explorer(scenario, subject)
    exploration = explorer.run(False, lambda *_: None)
    worlds = explorer.system.worlds
    ends = frozenset(
        (anonymous(worlds[one.world].text, scenario), one.expiries, one.faults, one.acknowledged)
        for one in (explorer.states[number] for number in explorer.ends)
    )
    plain = enumerate_schedules(scenario, subject)
    assert (exploration.schedules, exploration.violating, ends) == (plain.schedules, plain.violating, plain.ends)


def test_the_yardstick_can_tell() -> None:
    """The comparison above covers cases in which some schedules violate a law, and some do not."""
    scenario = replace(ONE_REQUEST, deliveries=ONE, faults=1, expiries=1)
    plain = enumerate_schedules(scenario, PEERS[2].subject)
    assert 0 < plain.violating < plain.schedules


BUDGETS = [
    replace(ONE_REQUEST, deliveries=TWO, faults=1, expiries=0),
    replace(ONE_REQUEST, deliveries=ONE, faults=2, expiries=1),
    replace(LAST_SLOT, deliveries=((0,), (1,)), faults=0, expiries=1),
]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", BUDGETS, ids=lambda scenario: f"{scenario.name} {scenario.size}")
def test_botocore_itself_changes_nothing(scenario: Scenario) -> None:
    """boto3's own clients, every request caught before it is sent: the same states, steps and schedules."""
    port, port_states = graph(scenario, OURS)
    wire, wire_states = graph(scenario, Subject("Oneslot on botocore", botocore_program, OURS.laws))
    assert (wire.schedules, wire.states, wire.steps) == (port.schedules, port.states, port.steps)
    assert wire_states == port_states
    assert not wire.laws_broken


@pytest.mark.slow
@pytest.mark.parametrize("scenario", BUDGETS[1:], ids=lambda scenario: f"{scenario.name} {scenario.size}")
def test_moto_walks_the_same_graph(scenario: Scenario) -> None:
    """The port's answers are moto's: same states, same steps, same schedules."""
    port = Explorer(scenario, OURS, without_messages(InMemoryServices(TABLES)))
    counted = port.run(False, lambda *_: None)
    with moto_services() as services:
        moto = Explorer(scenario, OURS, without_messages(services))
        walked = moto.run(False, lambda *_: None)
    assert (walked.schedules, walked.states, walked.steps) == (counted.schedules, counted.states, counted.steps)
    assert states(moto, scenario) == states(port, scenario)


@pytest.mark.parametrize("scenario", SHORT, ids=lambda scenario: f"{scenario.name} {scenario.size}")
def test_no_schedule_breaks_a_law(scenario: Scenario) -> None:
    """The short form of `make explore`."""
    exploration = explore(scenario, OURS)
    assert exploration.complete
    assert exploration.schedules > 0
    assert exploration.laws_broken == ()


def test_an_exploration_is_the_same_every_time() -> None:
    """No hash order, clock or random number gets in."""
    scenario = replace(BOOK_AND_CANCEL, deliveries=((0,), (1,)), expiries=0)
    first, second = (Explorer(scenario, OURS) for _ in range(2))
    first.run(False, lambda *_: None)
    second.run(False, lambda *_: None)
    assert first.states == second.states


def test_progress_is_told() -> None:
    """What is done, and what is still known to be done."""
    heard: list[tuple[int, int]] = []
    explore(UNKNOWN_PRACTICE, OURS, progress=lambda states, waiting: heard.append((states, waiting)))
    assert [states for states, _ in heard] == sorted({states for states, _ in heard})
    assert all(waiting >= 0 for _, waiting in heard)
