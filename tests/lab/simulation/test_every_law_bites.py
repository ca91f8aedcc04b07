"""Each law of the simulation is broken by a system that is broken where the law looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from demo.declared import CONSUMER
from lab.simulation.run import run_seeds
from lab.simulation.world.points import Instrumented
from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.local.mapping import poller
from oneslot.local.mapping.batching import collect
from oneslot.local.mapping.poller import Poller
from oneslot.operator.evidence.operator_log import OperatorLog
from oneslot.operator.repair import redrive
from oneslot.operator.repair.journal import Journal
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.messages import Message
from oneslot.operator.sending.pacing import Timetable
from oneslot.runtime.consumer import queues
from oneslot.runtime.protocol import Committed
from oneslot.runtime.sqs.deferral import Deferral
from oneslot.runtime.sqs.producer import Producer
from oneslot.runtime.stores import valkey
from oneslot.runtime.stores.renewing import RenewingLedger
from oneslot.runtime.stores.valkey import ValkeyLedger
from oneslot.worker import pool
from oneslot.worker.pool import Pool, Source
from oneslot.worker.visibility import Visibility

SEEDS = 200
FIRST_SEEDS = {"Q3": 75, "Q19": 13, "Q20": 20}
"""Where the search begins for the laws that few seeds break."""

Break = Callable[[pytest.MonkeyPatch], None]


def commit_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Perform every transaction without its conditions, and without the names and values that only these use."""
    perform = InMemoryDynamoDB.transact_write_items

    def unfenced(self: InMemoryDynamoDB, **request: Any) -> Mapping[str, Any]:
        for item in request["TransactItems"]:
            for write in item.values():
                for name in ("ConditionExpression", "ReturnValuesOnConditionCheckFailure"):
                    write.pop(name, None)
                expressions = f"{write.get('UpdateExpression', '')} "
                for kind in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
                    used = {name: value for name, value in write.get(kind, {}).items() if f"{name} " in expressions
                            or f"{name}," in expressions}  # fmt: skip
                    write.pop(kind, None)
                    if used:
                        write[kind] = used
        return perform(self, **request)

    patch.setattr(InMemoryDynamoDB, "transact_write_items", unfenced)


def fail_first_deliveries(patch: pytest.MonkeyPatch) -> None:
    call = Pool._call
    patch.setattr(Pool, "_call", lambda pool, job: call(pool, job) or ("x" if job.receive_count == 1 else None))


def take_a_group_for_single_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Source, "fifo", property(lambda self: False))


def reserve_threads_that_are_busy(patch: pytest.MonkeyPatch) -> None:
    reserve = Pool.reserve
    patch.setattr(Pool, "reserve", lambda pool, most, seconds: max(reserve(pool, most, seconds), min(most, 2)))


def hide_busy_messages_for_hours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deferral, "after_busy", lambda self, receive_count, lease_ms, jitter: 7_200)


def leave_busy_messages_to_their_visibility(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool, "RETRY_AFTER", "not an attribute")


def archive_every_second_message(patch: pytest.MonkeyPatch) -> None:
    accepted = Archive.accepted
    patch.setattr(Archive, "accepted", lambda self, messages: accepted(self, list(messages)[::2]))


def quarantine_without_a_reason(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queues, "REASON_ATTRIBUTE", "Why")


def beat_with_an_error(patch: pytest.MonkeyPatch) -> None:
    beat = Visibility.beat

    def dies(self: Visibility) -> None:
        beat(self)
        if self._in_hand.all():
            raise LookupError("a defect")

    patch.setattr(Visibility, "beat", dies)


def forget_deletions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "note_deleted", lambda self, ids: None)


def send_every_planned_letter_again(patch: pytest.MonkeyPatch) -> None:
    move = redrive._move

    def again(target: Any, look: Any, planned: Any, journal: Any, pacer: Any) -> None:
        redrive._send(target, planned, journal)
        move(target, look, planned, journal, pacer)

    patch.setattr(redrive, "_move", again)


def log_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperatorLog, "write", lambda self, *subject, **more: None)


def archive_other_ids_too(patch: pytest.MonkeyPatch) -> None:
    accepted = Archive.accepted

    def twice(self: Archive, messages: Iterable[tuple[Message, str]]) -> None:
        pairs = list(messages)
        accepted(self, [*pairs, *((message, f"x{sqs_message_id}") for message, sqs_message_id in pairs)])

    patch.setattr(Archive, "accepted", twice)


def commit_without_the_conditions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(valkey, "_COMMIT", valkey._COMMIT.replace("refused = refused or not holds", "refused = false"))


def acknowledge_without_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ValkeyLedger, "commit", lambda self, claim, effects: Committed(effects.result))


def leave_out_a_result(patch: pytest.MonkeyPatch) -> None:
    send = Producer.send
    patch.setattr(Producer, "send", lambda self, *messages, **options: send(self, *messages, **options)[1:])


def wait_for_a_day(patch: pytest.MonkeyPatch) -> None:
    wait_until = Timetable.wait_until
    patch.setattr(Timetable, "wait_until", lambda self, due: wait_until(self, due + 86_400))


def extend_beyond_the_deadline(patch: pytest.MonkeyPatch) -> None:
    extended = RenewingLedger._extended
    patch.setattr(RenewingLedger, "_extended", lambda self, held, until: extended(self, held, until + 3_600_000))


def extend_no_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RenewingLedger, "beat", lambda self: None)


def fill_no_batch_by_size(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(poller, "collect", lambda receive, **more: collect(receive, **{**more, "batch_size": 10}))


def offer_at_any_age(patch: pytest.MonkeyPatch) -> None:
    offer = Poller._offer
    patch.setattr(Poller, "_offer", lambda self, batch: offer(self, replace(batch, since=self._surroundings.steady())))


def stop_without_waiting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Poller, "finish", lambda self: self._stopping.set())


LAWS: Mapping[str, tuple[str, Break]] = {
    "M1": ("mapping", fill_no_batch_by_size),
    "M2": ("mapping", offer_at_any_age),
    "M3": ("mapping", stop_without_waiting),
    "Q1": ("hanging", commit_without_a_fence),
    "Q2": ("workers", fail_first_deliveries),
    "Q3": ("long-work", leave_busy_messages_to_their_visibility),
    "Q4": ("workers-fifo", take_a_group_for_single_messages),
    "Q5": ("workers", reserve_threads_that_are_busy),
    "Q6": ("workers", hide_busy_messages_for_hours),
    "Q7": ("send", archive_every_second_message),
    "Q8": ("workers", quarantine_without_a_reason),
    "Q9": ("workers", beat_with_an_error),
    "Q10": ("redrives", forget_deletions),
    "Q11": ("redrives", send_every_planned_letter_again),
    "Q12": ("operators", log_nothing),
    "Q13": ("send", archive_other_ids_too),
    "Q14": ("producers", leave_out_a_result),
    "Q15": ("send", wait_for_a_day),
    "Q18": ("renewing", extend_beyond_the_deadline),
    "Q19": ("renewing", extend_no_lease),
    "Q20": ("valkey", commit_without_the_conditions),
    "Q21": ("valkey", acknowledge_without_a_commit),
}


@pytest.mark.parametrize("law", LAWS)
def test_law_is_broken_by_a_broken_system(law: str, modules: Instrumented, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, damage = LAWS[law]
    damage(monkeypatch)

    first = FIRST_SEEDS.get(law, 0)
    runs = run_seeds(scenario, range(first, first + SEEDS), modules)

    assert any(breach.law == law for run in runs for breach in run.breaches)


def test_every_law_of_the_simulation_is_here() -> None:
    assert set(LAWS) == {invariant.name for invariant in CONSUMER.laws if re.match("[MQ]", invariant.name)}
