"""The remembered behaviour of code that is run again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from oneslot.explorer.execution.behaviour import Behaviour, Interner
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import to_text


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
