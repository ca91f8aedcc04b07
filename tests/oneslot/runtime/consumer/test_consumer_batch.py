"""Records side by side: order within a message, failures one by one; in the plain way and through Powertools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from oneslot.runtime import powertools
from oneslot.runtime.consumer import consumer
from oneslot.runtime.consumer.consumer import Process, stopping_groups
from oneslot.runtime.consumer.record import Record
from tests.kits.consumer import as_record, record

BOTH_WAYS = pytest.mark.parametrize("process", [consumer.process, powertools.process], ids=["plain", "powertools"])


def parsed(body: str) -> Record[Any]:
    """A record whose message id is the body's first letter."""
    return as_record(record(body), body[0])


def run(
    process: Process,
    records: Sequence[Record[Any]],
    handle: Callable[[Record[Any]], Any],
    workers: int | None,
    is_answered: Callable[[Record[Any]], bool] = lambda _: False,
) -> list[str]:
    """Process the records; return the bodies of those reported as failed."""
    executor = ThreadPoolExecutor(workers) if workers else None
    response = process(records, handle, executor, is_answered)
    if executor:
        executor.shutdown()
    bodies = {each.receipt.sqs_message_id: each.body for each in records}
    return [bodies[failure["itemIdentifier"]] for failure in response["batchItemFailures"]]


@BOTH_WAYS
def test_different_messages_run_at_the_same_time(process: Process) -> None:
    together = threading.Barrier(3, timeout=15)
    assert run(process, [parsed(body) for body in "abc"], lambda _: together.wait(), workers=3) == []


@BOTH_WAYS
def test_messages_without_an_id_run_at_the_same_time(process: Process) -> None:
    together = threading.Barrier(2, timeout=15)
    assert run(process, [as_record(record("a")), as_record(record("b"))], lambda _: together.wait(), workers=2) == []


@BOTH_WAYS
@pytest.mark.parametrize("workers", [None, 1, 4])
def test_copies_of_one_message_run_in_order(process: Process, workers: int | None) -> None:
    seen: list[str] = []
    bodies = ["a1", "b1", "a2", "c1", "b2", "a3"]

    run(process, [parsed(body) for body in bodies], lambda each: seen.append(each.body), workers)

    for message in "abc":
        assert [body for body in seen if body[0] == message] == [body for body in bodies if body[0] == message]


@pytest.mark.parametrize("workers", [None, 1, 4])
def test_results_keep_the_batchs_order(workers: int | None) -> None:
    bodies = ["a1", "b1", "a2", "c1", "b2", "a3"]
    with ThreadPoolExecutor(workers or 1) as executor:
        results = consumer.run_side_by_side(
            [parsed(body) for body in bodies], lambda each: each.body, executor if workers else None, lambda _: False
        )
    assert results == bodies


@BOTH_WAYS
@pytest.mark.parametrize("workers", [None, 4])
def test_only_failed_records_are_reported(process: Process, workers: int | None) -> None:
    def handle(each: Record[Any]) -> None:
        if "bad" in each.body:
            raise ValueError

    assert run(process, [parsed(body) for body in ("a bad", "b good", "c bad")], handle, workers) == ["a bad", "c bad"]


@BOTH_WAYS
def test_batch_is_not_raised_when_every_record_fails(process: Process) -> None:
    def handle(_: Record[Any]) -> None:
        raise ValueError

    assert run(process, [parsed("a"), parsed("b")], handle, None) == ["a", "b"]


@BOTH_WAYS
def test_exit_leaves_the_batch(process: Process) -> None:
    def handle(_: Record[Any]) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        run(process, [parsed("a"), parsed("b")], handle, None)


@BOTH_WAYS
def test_thread_keeps_nothing_between_records(process: Process) -> None:
    left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")
    found: list[str] = []

    def handle(each: Record[Any]) -> None:
        found.append(left_behind.get())
        left_behind.set(each.body)

    run(process, [parsed(body) for body in "abc"], handle, workers=1)
    assert found == ["nothing"] * 3


@BOTH_WAYS
def test_answered_record_needs_no_thread(process: Process) -> None:
    ran_in: dict[str, threading.Thread] = {}

    def handle(each: Record[Any]) -> None:
        ran_in[each.body] = threading.current_thread()

    bodies = ["a1 answered", "b1", "b2 answered", "c1 answered", "d1"]
    run(process, [parsed(body) for body in bodies], handle, 2, lambda each: "answered" in each.body)
    here = {body for body, thread in ran_in.items() if thread is threading.current_thread()}
    assert here == {"a1 answered", "c1 answered"}  # "b2" follows "b1", which has to wait


@BOTH_WAYS
def test_single_message_needs_no_thread(process: Process) -> None:
    ran_in: list[threading.Thread] = []
    run(process, [parsed("a1"), parsed("a2")], lambda _: ran_in.append(threading.current_thread()), workers=2)
    assert ran_in == [threading.current_thread()] * 2


@BOTH_WAYS
def test_failure_stops_nothing_when_the_queue_is_standard(process: Process) -> None:
    tried: list[str] = []

    def handle(each: Record[Any]) -> None:
        tried.append(each.body)
        if each.body == "a1":
            raise ValueError("the first one")

    failed = run(process, [parsed("a1"), parsed("a2")], stopping_groups(handle), None)
    assert (tried, failed) == (["a1", "a2"], ["a1"])
