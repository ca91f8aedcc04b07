"""Every step of the real handler in the explorer is a step of the specification."""

from collections.abc import Iterator

import pytest

from lab.explore.ours import OURS
from lab.explore.practice import LEDGER
from lab.explore.scenarios import BOOKING, ONE_REQUEST
from lab.specification.bridge import (
    COMPLETE,
    AbstractState,
    AbstractStep,
    Allowed,
    abstract_state,
    allowed,
    kind_of_write,
)
from lab.specification.checker import Model
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import Scenario
from oneslot.explorer.state import ExploredState
from oneslot.explorer.system import System
from oneslot.explorer.world import ApiCall

pytestmark = pytest.mark.slow

# One fault of the explorer may be two of the specification's (the request is on its way, and the caller dies), and a
# lease that ends while its owner works is one more.
MODEL = Model(consumers=2, messages=1, faults=3)


@pytest.fixture(scope="module")
def rules() -> Allowed:
    """The states and steps that the specification allows."""
    return allowed(MODEL)


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    """The real handler with one request, delivered twice, with one fault and one expiry."""
    explorer = Explorer(ONE_REQUEST, OURS)
    exploration = explorer.run()
    assert (exploration.complete, exploration.violating, exploration.size) == (True, 0, "K=2 F=1 T=1")
    return explorer


def seen(system: System, scenario: Scenario, state: ExploredState) -> tuple[AbstractState, str | None]:
    """Return the explorer's state in the specification's terms, and the owner of the row."""
    world = system.worlds[state.world]
    row = world.by(LEDGER, "message_id").get(BOOKING.message_id)
    kinds = {kind_of_write(*ApiCall(system.requests.texts[number]).parts) for number in state.network}
    found = abstract_state(
        BOOKING.message_id,
        row,
        world.rows["slots"].values(),
        world.rows["appointments"].values(),
        now=scenario.clock(state.expiries),
        acknowledged=bool(state.acknowledged),
        late=[kind for kind in kinds if kind],
    )
    return found, None if row is None else str(row["claimed_by"])


def steps_of(explorer: Explorer) -> Iterator[AbstractStep]:
    system = explorer.system
    for state in explorer.states:
        before, owner = seen(system, ONE_REQUEST, state)
        for step in system.steps(state):
            after, new_owner = seen(system, ONE_REQUEST, step.state)
            yield AbstractStep(before, after, owner != new_owner)


def test_specification_allows_every_step_of_the_explorer(explorer: Explorer, rules: Allowed) -> None:
    steps = set(steps_of(explorer))
    assert len(steps) > 50
    assert {step.before for step in steps} | {step.after for step in steps} <= rules.states
    assert rules.objections(steps) == []


def test_explorer_reaches_every_state_without_late_writes(explorer: Explorer, rules: Allowed) -> None:
    reached = {step.after for step in steps_of(explorer)}
    assert {state for state in rules.states if not state.late} <= reached | {seen_at_start(explorer)}


def seen_at_start(explorer: Explorer) -> AbstractState:
    return seen(explorer.system, ONE_REQUEST, explorer.system.start)[0]


def test_specification_forbids_steps_against_the_protocol(rules: Allowed) -> None:
    done = AbstractState(COMPLETE, False, 1, acknowledged=True)
    reverted = AbstractState("IN_PROGRESS", True, 1, acknowledged=True)
    working = AbstractState("IN_PROGRESS", True, 0)
    half = AbstractState("IN_PROGRESS", True, 1)
    forbidden = [
        AbstractStep(done, reverted, True),
        AbstractStep(working, working, True),
        AbstractStep(working, half, False),
        AbstractStep(done, done._replace(effects=2), False),
    ]
    assert set(rules.objections(forbidden)) == set(forbidden)
