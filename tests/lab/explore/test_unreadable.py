"""An error in a law or a service is a breach, and does not end the exploration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.explore.ours import OURS, PortClient
from lab.explore.plain import enumerate_schedules
from lab.explore.scenarios import ONE_REQUEST, UNKNOWN_PRACTICE
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import Scenario
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.record import Record

SMALL = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)


def _claims_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    call = PortClient.__getattr__

    def weakened(self: PortClient, operation: str) -> Any:
        made = call(self, operation)

        def without(**parameters: Any) -> Any:
            parameters["UpdateExpression"] = parameters["UpdateExpression"].replace("lease_until = :lease_until, ", "")
            parameters["ExpressionAttributeValues"].pop(":lease_until", None)
            return made(**parameters)

        return without if operation == "update_item" else made

    monkeypatch.setattr(PortClient, "__getattr__", weakened)


def _sends_what_the_port_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def quarantine(self: Queues, record: Record[Any], problem: Exception) -> None:
        self.client.send_message(QueueUrl=self.queue_url, MessageBody=record.body, Delay=1)

    monkeypatch.setattr(Queues, "quarantine", quarantine)


@pytest.mark.parametrize(
    ("scenario", "weaken", "breach"),
    [
        (SMALL, _claims_without_a_lease, "unreadable: KeyError in resting: 'lease_until'"),
        (
            replace(UNKNOWN_PRACTICE, deliveries=((0,),), faults=0, expiries=0),
            _sends_what_the_port_does_not_know,
            "unreadable: UnsupportedRequest in refuse_unknown",
        ),
    ],
    ids=["a row that a law cannot read", "a request that the services do not know"],
)
def test_error_in_a_law_or_service_is_a_breach_with_a_path(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, weaken: Any, breach: str
) -> None:
    weaken(monkeypatch)
    explorer = Explorer(scenario, OURS)
    exploration = explorer.run(False, lambda *_: None)
    assert exploration.complete
    assert "unreadable" in exploration.laws_broken
    assert exploration.violating == enumerate_schedules(scenario, OURS).violating > 0
    found = next(one for one in exploration.breaches if any(law.startswith(breach) for law in one.laws))
    broken = replay(counterexample(explorer.system, found), scenario, OURS).broken
    assert any(law.startswith(breach) for law in broken)
