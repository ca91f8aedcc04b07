"""The laws read all that the code under test logs: an NHS number in it breaks L1."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.explore.ours import OURS, our_program
from lab.explore.plain import enumerate_schedules
from lab.explore.scenarios import ONE_REQUEST
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation, capture_logs
from oneslot.explorer.explorer import Explorer, explore
from oneslot.explorer.scenario import ExploredSubject
from oneslot.runtime.consumer.consumer import Consumer

SMALL = replace(ONE_REQUEST, deliveries=((0,),), faults=0, expiries=0)


def quoting(logger: str, level: int) -> Callable[[Mapping[str, Any]], None]:
    return lambda record: logging.getLogger(logger).log(level, "failed on %s", record["body"])


def with_the_exception(record: Mapping[str, Any]) -> None:
    try:
        int(record["body"])
    except ValueError:
        logging.getLogger("oneslot.runtime.consumer.consumer").exception("failed")


def raising(record: Mapping[str, Any]) -> None:
    raise ValueError(f"what is {record['body']}?")


def subject(say: Callable[[Mapping[str, Any]], None]) -> ExploredSubject:
    """Return our consumer, with something logged of each record."""

    def program(
        process: RunningInvocation, context: InvocationContext, records: Sequence[dict[str, Any]], side_by_side: bool
    ) -> Mapping[str, Any]:
        for record in records:
            say(record)
        return our_program(process, context, records, side_by_side)

    return ExploredSubject("talkative", program, OURS.laws)


@pytest.mark.parametrize(
    "say",
    [
        quoting("oneslot.runtime.consumer.consumer", logging.WARNING),
        quoting("any", logging.INFO),
        with_the_exception,
        raising,
    ],
    ids=["a warning", "at INFO, by any logger", "in an exception's text", "in what Lambda logs of an error"],
)
def test_logged_nhs_number_breaks_l1(say: Callable[[Mapping[str, Any]], None]) -> None:
    talkative = subject(say)
    explorer = Explorer(SMALL, talkative)
    exploration = explorer.run(False, lambda *_: None)
    assert "L1" in exploration.laws_broken
    assert exploration.violating == exploration.schedules == enumerate_schedules(SMALL, talkative).violating
    found = next(breach for breach in exploration.breaches if any(law.startswith("L1") for law in breach.laws))
    assert any(law.startswith("L1") for law in replay(counterexample(explorer.system, found), SMALL, talkative).broken)


def test_hidden_log_line_breaks_no_law() -> None:
    assert explore(SMALL, subject(quoting("any", logging.DEBUG))).laws_broken == ()
    assert explore(SMALL, subject(lambda record: logging.getLogger("any").warning("a record"))).laws_broken == ()


def test_explorer_finds_a_consumer_that_logs_failed_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is logged only where a record fails, so only under a fault."""
    consume = Consumer._consume

    def talkative(self: Consumer[Any], record: Any, *others: Any) -> None:
        try:
            consume(self, record, *others)
        except Exception:
            logging.getLogger("oneslot.runtime.consumer.consumer").warning("failed on %s", record.body)
            raise

    monkeypatch.setattr(Consumer, "_consume", talkative)
    assert explore(SMALL, OURS).laws_broken == ()
    assert explore(replace(SMALL, faults=1), OURS).laws_broken == ("L1",)


def test_loggers_are_restored_after_an_exploration() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with capture_logs():
        logging.getLogger("any").info("while nothing runs")
    explore(SMALL, OURS)
    assert (root.level, list(root.handlers)) == before
