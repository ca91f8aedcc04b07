"""The ready laws: each breaks for a handler that does not keep it, and holds for one that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import as_if_once, at_least_one, at_most_one, no_effect_twice
from oneslot.explorer.handlers.verdict import Result

ORDER, REQUEST = {"order": "o-1"}, {"httpMethod": "POST", "body": "o-1"}


def explored(handler: str, **options: Any) -> Result:
    given: dict[str, Any] = {"messages": [ORDER], "tables": {"orders": "id"}, "law": (), **options}
    return explore(handler, path=Path(__file__).parent, **given)


@pytest.mark.parametrize(
    ("handler", "law", "words"),
    [
        ("subjects.put_under_new_id", at_most_one("orders", "order"), "at most one row of orders for each order"),
        ("subjects.swallow", at_least_one("orders"), "at least one row of orders"),
        ("senders.publish_then_mark", no_effect_twice, "no outside effect happens more often"),
        ("subjects.put_under_new_id", as_if_once, "as-if-once: orders has 2 rows"),
    ],
)
def test_law_breaks_for_a_handler_that_ignores_it(handler: str, law: Any, words: str) -> None:
    broken, held = explored(handler, law=law), explored("subjects.put", law=law)

    assert (broken.holds, held.holds) == (False, True)
    assert words in broken.verdict


def test_several_laws_are_judged_together() -> None:
    result = explored("senders.publish_then_mark", law=[as_if_once, no_effect_twice])

    assert "no outside effect" in result.verdict


def test_swallowed_failure_is_acknowledged() -> None:
    swallowed, plain = (
        explored(handler, acknowledges_only_finished=True) for handler in ("subjects.swallow", "subjects.put")
    )

    assert (swallowed.holds, plain.holds) == (False, True)
    assert "an invocation whose last call failed acknowledged its messages" in swallowed.verdict


def test_condition_that_does_not_hold_is_no_failure() -> None:
    assert explored("subjects.refuse_second", messages=[REQUEST], acknowledges_only_finished=True).holds


def test_answers_are_equal_apart_from_generated_values() -> None:
    other, same = (
        explored(f"subjects.{handler}", messages=[REQUEST], answers_equal=True)
        for handler in ("refuse_second", "answer_again")
    )

    assert (other.holds, same.holds) == (False, True)
    assert 'message 1 is answered with {"body": "", "statusCode": 409}' in other.verdict
