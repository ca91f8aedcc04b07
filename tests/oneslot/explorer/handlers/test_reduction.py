"""The reductions against a naive walk: every path, without equal states, equal copies, or answers that count as unread."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.handlers import exploration
from oneslot.explorer.handlers.asked import At
from oneslot.explorer.handlers.aws import AccountServices, handler_faults, intercepted
from oneslot.explorer.handlers.exploration import LAMBDA
from oneslot.explorer.handlers.laws import HandlerLaws, View
from oneslot.explorer.handlers.modules import Code, found
from oneslot.explorer.handlers.process import RunningHandler, running
from oneslot.explorer.handlers.scenario import HandlerScenario, HandlerSubject, message_of
from oneslot.explorer.handlers.surroundings.takeover import taken_over
from oneslot.explorer.handlers.templates.sources import KNOWN, FunctionSource
from oneslot.explorer.handlers.templates.template import tables_of
from oneslot.explorer.scan.first_events import options_for
from oneslot.explorer.state import ExploredState
from oneslot.explorer.system import System
from tests.oneslot.explorer.handlers.tiny import tiny_handler

TABLES = tables_of({"orders": "id"})
SEEDS = 48
QUICK_SEEDS = 2
QUICK_SOURCES = ("SQS", "SQS FIFO", "DynamoDB stream", "SNS", "HTTP API v2")
"""One source of each way to deliver; the slow tests have the others."""
COUNTS_AND_FAILS = 13
"""The seed of a handler that fails once its counter is above one. It reads no event."""
HERE = Path(__file__).parent
End = tuple[str, int, tuple[str, ...]]


class ReadingProcess(RunningHandler):
    """A process that imports its modules, and whose code counts as having read, and as remembering, all that it was given."""

    has_read_clock = property(lambda self: True, lambda self, _: None)

    def memory(self) -> None:
        return None

    def unread(self) -> tuple[bool, bool]:
        return False, False


def at_most_three(world: View) -> bool:
    """no counter exceeds three"""
    return all(row.get("n", 0) <= 3 for row in world["orders"])


def scenario_of(code: Code, faults: int, timed: bool) -> HandlerScenario:
    return HandlerScenario(
        name=code.name,
        sentence="",
        messages=(message_of(0, {"order": "o-1"}),),
        deliveries=((0,), (0,)),
        tables=TABLES,
        services=AccountServices(TABLES),
        faults=faults,
        choices=handler_faults,
        timed=timed,
    )


@contextmanager
def installed(code: Code) -> Iterator[HandlerSubject]:
    laws, scenario = HandlerLaws(TABLES, (at_most_three,)), scenario_of(code, 1, False)
    subject = HandlerSubject(code.name, lambda *_: {}, laws, RunningHandler, code=code, scenario=scenario)
    with ExitStack() as stack:
        stack.enter_context(taken_over(running, LAMBDA))
        stack.enter_context(intercepted(running))
        stack.enter_context(code.importable())
        for _ in range(2):  # as the explorer does: what a library reads when it is imported does not count
            code.forget_reads()
            reduced(scenario_of(code, 0, False), replace(subject, identified=True))
        yield replace(subject, identified=code.reads_identity)


def naive(scenario: HandlerScenario, subject: HandlerSubject) -> tuple[int, set[End]]:
    """Return the number of paths, and the states in which one may end, by walking each of them."""
    system = System(scenario, replace(subject, process=ReadingProcess, identified=True))
    aftermath, ends, paths = Aftermath(system), set[End](), 0
    stack: list[ExploredState] = [system.start]
    while stack:
        state = stack.pop()
        following = [step.state for step in system.steps(state)]
        stack += following
        paths += not following
        if not following or scenario.may_end(state.codes, bool(state.network)):
            ends.add((system.worlds[state.world].text, state.acknowledged, aftermath(state)))
    return paths, ends


def reduced(scenario: HandlerScenario, subject: HandlerSubject) -> tuple[int, set[End]]:
    """Return the same, as the explorer finds it."""
    known = -1
    while known != len(scenario.services.lagging):  # as the explorer does: worlds keep what plain reads may miss
        known = len(scenario.services.lagging)
        explorer = Explorer(scenario, subject)
        explored = explorer.run(False, lambda *_: None)
    aftermath = Aftermath(explorer.system)
    return explored.schedules, {
        (explorer.system.worlds[state.world].text, state.acknowledged, aftermath(state))
        for number, state in enumerate(explorer.states)
        if number in explorer.ends or scenario.may_end(state.codes, bool(state.network))
    }


@pytest.mark.parametrize(
    ("handler", "faults", "timed"),
    [
        ("charge_then_mark", 1, False),
        ("put", 0, True),
        ("wait_for_a_minute", 0, True),
        ("put", 1, False),
        ("add_twice", 1, False),
        ("remember_in_module", 1, False),
    ],
)
def test_reduced_exploration_equals_the_naive_walk(handler: str, faults: int, timed: bool) -> None:
    code = found(f"subjects.{handler}", [HERE])
    with installed(code) as subject:
        scenario = scenario_of(code, faults, timed)
        assert reduced(scenario, subject) == naive(scenario, subject)


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK_SOURCES else pytest.param(kind, marks=pytest.mark.slow) for kind in KNOWN]
)
def test_exploration_of_each_source_equals_the_naive_walk(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(tiny_handler(COUNTS_AND_FAILS))
    monkeypatch.setattr(exploration.Exploration, "run", lambda self: self)
    options = options_for(FunctionSource(kind, "Source", {}, {}, "orders"), {At.PAYLOAD: {"order": "o-1"}}, TABLES)
    made: Any = exploration.explore("app.handler", tables=TABLES, path=tmp_path, **options)
    with installed(made.code) as subject:
        own = replace(subject, scenario=made.scenario)
        scenario = replace(made.scenario, timed=False)
        assert reduced(scenario, own) == naive(scenario, own)


@pytest.mark.parametrize(
    "seed", [seed if seed < QUICK_SEEDS else pytest.param(seed, marks=pytest.mark.slow) for seed in range(SEEDS)]
)
def test_tiny_handler_equals_the_naive_walk(seed: int, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(tiny_handler(seed))
    code = found("app.handler", [tmp_path])
    with installed(code) as subject:
        scenario = scenario_of(code, 1, False)
        assert reduced(scenario, subject) == naive(scenario, subject)
