"""The deployed `handler.lambda_handler` with boto3's clients in the explorer: equal schedules, no breach."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import boto3
import pytest

from lab.explore.ours import OURS
from lab.explore.practice import APPOINTMENTS, DEAD_LETTERS, LEDGER, QUEUE, SLOTS
from lab.explore.scenarios import ONE_REQUEST
from oneslot.explorer.execution.clients import intercept_requests, serve
from oneslot.explorer.execution.process import Context, Process
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.scenario import MOST_REDELIVERIES, Subject
from oneslot.runtime.surroundings import Surroundings

ENVIRONMENT = {
    "ONESLOT_LEDGER_TABLE": LEDGER,
    "ONESLOT_TABLE_SLOTS": SLOTS,
    "ONESLOT_TABLE_APPOINTMENTS": APPOINTMENTS,
    "ONESLOT_QUEUE_URL": QUEUE,
    "ONESLOT_DEAD_LETTER_QUEUE_URL": DEAD_LETTERS,
    "ONESLOT_LEDGER_RETENTION_SECONDS": str(30 * 86_400),
    "ONESLOT_MAX_RECEIVE_COUNT": str(MOST_REDELIVERIES),
    "BATCH_CONCURRENCY": "1",
    "CANDIDATE_SLOTS": "20",
    "CONTENT_BASED_DEDUPLICATION": "false",
    "POWERTOOLS_SERVICE_NAME": "appointments",
    "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
    "AWS_DEFAULT_REGION": "eu-west-2",
    "AWS_ACCESS_KEY_ID": "AKIAEXPLORER",
    "AWS_SECRET_ACCESS_KEY": "none",
}
_running: ContextVar[Process] = ContextVar("running")


class _Log:
    """A replacement of the handler's logger: the delivery log goes to the process that writes it."""

    def info(self, message: str, **line: Any) -> None:
        assert message == "delivery"
        _running.get().log(line)


@pytest.fixture
def lambda_handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Mapping[str, Any]]]:
    """Yield the handler, imported as Lambda does; only its clock, ids and sleep are the explorer's."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    surroundings = Surroundings(
        now_ms=lambda: _running.get().clock,
        new_id=lambda: _running.get().new_id(),
        sleep=lambda _: None,
        jitter=lambda: 0.0,
    )
    monkeypatch.setattr("oneslot.runtime.stores.dynamodb.Surroundings", lambda: surroundings)
    made = boto3.client

    def caught(*arguments: Any, **options: Any) -> Any:
        client = made(*arguments, **options)
        intercept_requests(client)
        return client

    monkeypatch.setattr(boto3, "client", caught)
    monkeypatch.delitem(sys.modules, "handler", raising=False)
    module = importlib.import_module("handler")
    monkeypatch.setattr(module, "logger", _Log())
    yield module.lambda_handler
    sys.modules.pop("handler", None)


def test_deployed_handler_walks_the_same_graph(
    lambda_handler: Callable[..., Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One environment serves all deliveries, with its clients and module state."""

    def program(
        process: Process, context: Context, records: Sequence[dict[str, Any]], side_by_side: bool
    ) -> Mapping[str, Any]:
        _running.set(process)
        serve(process)
        return lambda_handler({"Records": list(records)}, context)

    scenario = replace(ONE_REQUEST, faults=1, expiries=0)
    entry = Explorer(scenario, Subject("handler.lambda_handler", program, OURS.laws))
    through_entry = entry.run(False, lambda *_: None)
    composed = Explorer(scenario, OURS).run(False, lambda *_: None)
    assert through_entry.laws_broken == ()
    assert (through_entry.schedules, through_entry.states) == (composed.schedules, composed.states)
    assert "9990000018" not in capsys.readouterr().out
