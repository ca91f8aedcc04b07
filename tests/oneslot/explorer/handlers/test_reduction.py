"""The reductions against a naive walk: every step, without equal states, equal copies or unread answers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from oneslot.explorer.explorer import Explorer
from oneslot.explorer.handlers.aws import intercepted
from oneslot.explorer.handlers.exploration import LAMBDA, HandlerScenario, HandlerSubject, message_of, tables_of
from oneslot.explorer.handlers.laws import HandlerLaws
from oneslot.explorer.handlers.modules import found
from oneslot.explorer.handlers.process import HandlerProcess, running
from oneslot.explorer.handlers.services import AccountServices, handler_faults
from oneslot.explorer.handlers.surroundings import taken_over
from oneslot.explorer.state import State
from oneslot.explorer.system import System

TABLES = tables_of({"orders": "id"})


class ReadingProcess(HandlerProcess):
    """A process whose code counts as having read all that it was given."""

    def unread(self) -> tuple[bool, bool]:
        return False, False


def naive_ends(system: System) -> set[str]:
    """Return the worlds at the ends of all paths, by walking each of them."""
    ends: set[str] = set()
    stack: list[State] = [system.start]
    while stack:
        state = stack.pop()
        following = [step.state for step in system.steps(state)]
        stack += following
        if not following:
            ends.add(system.worlds[state.world].text)
    return ends


@pytest.mark.parametrize(
    ("handler", "faults"), [("charge_then_mark", 0), ("charge_then_mark", 1), ("put", 1), ("add_twice", 1)]
)
def test_reduced_exploration_reaches_the_naive_ends(handler: str, faults: int) -> None:
    code = found(f"subjects.{handler}", [Path(__file__).parent])
    scenario = HandlerScenario(
        name=handler,
        sentence="",
        messages=(message_of(0, {"order": "o-1"}),),
        deliveries=((0,), (0,)),
        tables=TABLES,
        faults=faults,
        expiries=2,
        choices=handler_faults,
        ends_with=(),
        once_more=False,
        timed=False,
    )
    subject = HandlerSubject(handler, lambda *_: {}, HandlerLaws(TABLES), HandlerProcess, code=code)
    with ExitStack() as stack:
        stack.enter_context(taken_over(running, LAMBDA))
        stack.enter_context(intercepted(running))
        stack.enter_context(code.importable())
        reduced = Explorer(scenario, subject, AccountServices(TABLES))
        reduced.run(False, lambda *_: None)
        naive = System(scenario, replace(subject, process=ReadingProcess, identified=True), AccountServices(TABLES))
        ends = naive_ends(naive)

    assert {reduced.system.worlds[reduced.states[end].world].text for end in reduced.ends} == ends
