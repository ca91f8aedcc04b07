"""Both ways through the protocol, Powertools' and the plain one, walk the same graph."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.explore.ours import ENVIRONMENT, OURS, our_program
from lab.explore.scenarios import BATCH, DOMAIN_EXCEPTION, LAST_SLOT, ONE_REQUEST, OTHER_CONTENT
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.runtime import powertools
from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.consumer import process

SMALL = (
    replace(ONE_REQUEST, faults=1, expiries=0),
    replace(ONE_REQUEST, faults=0, expiries=1),
    replace(LAST_SLOT, deliveries=((0,), (1,)), faults=0, expiries=0),
    replace(OTHER_CONTENT, faults=0, expiries=0),
    replace(DOMAIN_EXCEPTION, deliveries=((0,),)),
    replace(BATCH, deliveries=((0, 1),), faults=0, expiries=0, side_by_side=True),
)

DEPLOYED = {"attempt": powertools.attempt}
BOTH = {**DEPLOYED, "process": powertools.process}


def through(**ways: Any) -> ExploredSubject:
    """Return our handler on one way through the protocol and through a batch."""

    def program(
        running: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
    ) -> Mapping[str, Any]:
        return our_program(running, context, records, side_by_side, ENVIRONMENT, **ways)

    return ExploredSubject("one way", program, OURS.laws)


@pytest.mark.parametrize("way", [DEPLOYED, BOTH], ids=["deployed", "batches too"])
@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: f"{scenario.name} {scenario.size}")
def test_both_ways_walk_the_same_graph(scenario: Scenario, way: dict[str, Any]) -> None:
    plain = Explorer(scenario, through(attempt=attempt, process=process))
    wrapped = Explorer(scenario, through(**way))

    counted, counted_wrapped = (explorer.run(False, lambda *_: None) for explorer in (plain, wrapped))

    assert counted.laws_broken == counted_wrapped.laws_broken == ()
    assert (counted.schedules, counted.states, counted.steps, counted.calls) == (
        counted_wrapped.schedules,
        counted_wrapped.states,
        counted_wrapped.steps,
        counted_wrapped.calls,
    )
    assert {plain.system.worlds[state.world].text for state in plain.states} == {
        wrapped.system.worlds[state.world].text for state in wrapped.states
    }
