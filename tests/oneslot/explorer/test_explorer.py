"""The explorer against a plain enumeration of the same schedules, and what it refuses: a scenario, and code that differs."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lab.explore.ours import OURS
from lab.explore.plain import anonymous, enumerate_schedules
from lab.explore.scenarios import (
    APART,
    BATCH_SIDE_BY_SIDE,
    BOOK_AND_CANCEL,
    LAST_SLOT,
    ONE_REQUEST,
    OTHER_CONTENT,
    SENT_TWICE,
    UNKNOWN_PRACTICE,
)
from lab.peers.peers import PEERS
from oneslot.explorer.execution.behaviour import Behaviour, Interner
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.world import to_text

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
    Explorer(UNKNOWN_PRACTICE, OURS).run(progress=lambda states, waiting: heard.append((states, waiting)))
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


@pytest.mark.parametrize(
    ("scenario", "change", "sentence"),
    [
        (BOOK_AND_CANCEL, {"deliveries": ((0,), (1,), (0,))}, "deliveries: equal ones must stand side by side"),
        (LAST_SLOT, {"deliveries": ((1,), (0,), (1,))}, "deliveries: equal ones must stand side by side"),
        (ONE_REQUEST, {"deliveries": ((0,), (1,))}, "deliveries: positions must be 0 to 0"),
        (ONE_REQUEST, {"deliveries": ((-1,),)}, "deliveries: positions must be 0 to 0"),
        (ONE_REQUEST, {"deliveries": ()}, "deliveries: at least one is needed"),
        (ONE_REQUEST, {"deliveries": ((0,), ())}, "deliveries: at least one is needed, each with a message"),
        (ONE_REQUEST, {"clocks": (0,)}, "clocks: give none, or one for each of the 2 deliveries"),
        (
            LAST_SLOT,
            {"clocks": (0, 1, 0), "deliveries": ((0,), (0,), (0,))},
            "deliveries: equal ones must stand side by",
        ),
        (ONE_REQUEST, {"faults": -1}, "faults: "),
        (ONE_REQUEST, {"expiries": -3}, "expiries: must be 0 to 3"),
        (ONE_REQUEST, {"expiries": 4}, "expiries: must be 0 to 3"),
    ],
)
def test_scenario_is_refused_when_an_attribute_is_invalid(scenario: Any, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        replace(scenario, **change)


def test_scenario_accepts_equal_deliveries_side_by_side() -> None:
    for deliveries in (((0,), (0,), (1,)), ((1,), (0,), (0,)), ((0, 1), (0, 1), (0,), (0,))):
        assert replace(LAST_SLOT, deliveries=deliveries).deliveries == deliveries


@pytest.mark.parametrize(
    ("later", "difference"),
    [
        (["put_item", "update_item"], "first it calls put_item, and later it calls update_item"),
        ([], "it ends too early"),
    ],
)
def test_code_is_refused_with_its_calls_and_a_remedy_when_it_does_not_repeat(later: list[str], difference: str) -> None:
    runs = count()

    def program(process: RunningInvocation, context: InvocationContext) -> Mapping[str, Any]:
        for name in ["put_item"] * 3 if next(runs) == 0 else later:
            process.call(name, {})
        return {"batchItemFailures": []}

    observations = Interner()
    behaviour = Behaviour(program, Interner(), observations)
    start = behaviour.start(0)
    answer, other = (observations(to_text({"answer": {"n": n}})) for n in (1, 2))
    second = behaviour.advance(start, 0, answer, 0)
    behaviour.advance(second, 0, answer, 0)

    with pytest.raises(NotExplorable, match=difference) as refused:
        behaviour.advance(second, 0, other, 0)

    assert str(refused.value).endswith("Keep it in a table, a module or /tmp.")
