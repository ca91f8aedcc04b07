"""The table of what an exploration costs: its rows, and that each kind of handler is complete."""

from __future__ import annotations

import pytest

from lab.benchmarks.explored import KINDS, measured


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_two_calls_is_complete(kind: str) -> None:
    label, calls, _, schedules, *_, complete = measured(kind, 2)

    assert (label, calls, complete) == (KINDS[kind], "2", "all levels")
    assert schedules in ("2,394", "1,411")


def test_five_calls_need_few_states_when_answers_are_forgotten() -> None:
    _, _, states, schedules, *_ = measured("one_item", 5)

    assert (states, schedules) == ("400", "344,854")


def test_level_is_named_when_the_budget_ends() -> None:
    assert measured("one_item", 5, budget=0.0)[-1] == 'not "twice"'
