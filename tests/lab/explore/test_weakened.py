"""The explorer finds a consumer that is weakened: in what it survives, logs, writes and sends."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from botocore import exceptions

from lab.explore.budgets import GROUPS_SHORT
from lab.explore.faults import READS, SERVER_ERROR, TRANSIENT_REASONS, all_faults, mild_faults
from lab.explore.ours import OURS, OURS_IN_GROUPS, PortClient, our_program
from lab.explore.plain import enumerate_schedules
from lab.explore.scenarios import ALONE, ONE_REQUEST, UNKNOWN_PRACTICE
from oneslot.explorer.counterexample import counterexample, replay
from oneslot.explorer.execution.process import InvocationContext, RunningInvocation, capture_logs
from oneslot.explorer.explorer import Explorer
from oneslot.explorer.faults import TIMED_OUT
from oneslot.explorer.scenario import ExploredSubject, Scenario
from oneslot.explorer.world import ApiCall
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.group_commit import GroupCommit
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.record import Record

# E1: one delivery survives one transient fault of a write.

GROUP_ALONE = GROUPS_SHORT[0]


def transaction(items: int) -> ApiCall:
    return ApiCall.of("transact_write_items", {"TransactItems": [{} for _ in range(items)]})


def test_mild_faults_are_transient_faults_of_writes() -> None:
    for operation in READS:
        assert mild_faults(ApiCall.of(operation, {})) == ()
    for request in (transaction(3), ApiCall.of("update_item", {}), ApiCall.of("send_message", {})):
        assert not any(choice.seen == "death" or "AccessDenied" in choice.name for choice in mild_faults(request))
    for request in (transaction(3), ApiCall.of("update_item", {})):
        assert {TIMED_OUT, SERVER_ERROR} <= set(mild_faults(request))


def test_transaction_is_refused_at_each_item() -> None:
    names = {choice.name for choice in mild_faults(transaction(3))}
    assert {f"cancelled: {code} at item {item} of 3" for code in TRANSIENT_REASONS for item in (1, 2, 3)} <= names
    conflicts = [choice.conflict for choice in all_faults(transaction(3)) if choice.conflict is not None]
    assert conflicts == [0, 1, 2]


def _takes_silence_for_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no attempt after one without an answer."""
    for name in ("ConnectionError", "HTTPClientError"):
        monkeypatch.setattr(exceptions, name, ZeroDivisionError)


def _fails_with_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every record of a group that fails."""

    monkeypatch.setattr(GroupCommit, "commit", GroupCommit._commit)


@pytest.mark.parametrize(
    ("scenario", "subject", "weaken"),
    [
        (ALONE[0], OURS, _takes_silence_for_an_end),
        (GROUP_ALONE, OURS_IN_GROUPS, _fails_with_its_group),
    ],
    ids=lambda value: getattr(value, "name", None) or getattr(value, "__name__", ""),
)
def test_explorer_finds_a_delivery_that_gives_up_early(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, subject: ExploredSubject, weaken: Any
) -> None:
    assert Explorer(scenario, subject).run().laws_broken == ()
    weaken(monkeypatch)
    assert Explorer(scenario, subject).run().laws_broken == ("E1",)


# The laws read all that the code under test logs: an NHS number in it breaks L1.


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
    assert Explorer(SMALL, subject(quoting("any", logging.DEBUG))).run().laws_broken == ()
    assert Explorer(SMALL, subject(lambda record: logging.getLogger("any").warning("a record"))).run().laws_broken == ()


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
    assert Explorer(SMALL, OURS).run().laws_broken == ()
    assert Explorer(replace(SMALL, faults=1), OURS).run().laws_broken == ("L1",)


def test_loggers_are_restored_after_an_exploration() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with capture_logs():
        logging.getLogger("any").info("while nothing runs")
    Explorer(SMALL, OURS).run()
    assert (root.level, list(root.handlers)) == before


# An error in a law or a service is a breach, and does not end the exploration.


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
