"""Records side by side: order within a message, failures one by one; in the plain way and through Powertools."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneslot.runtime import powertools
from oneslot.runtime.consumer import consumer
from oneslot.runtime.consumer.consumer import Process, stopping_groups
from oneslot.runtime.record import Record
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
    together = threading.Barrier(3, timeout=120)
    assert run(process, [parsed(body) for body in "abc"], lambda _: together.wait(), workers=3) == []


@BOTH_WAYS
def test_messages_without_an_id_run_at_the_same_time(process: Process) -> None:
    together = threading.Barrier(2, timeout=120)
    assert run(process, [as_record(record("a")), as_record(record("b"))], lambda _: together.wait(), workers=2) == []


def test_groups_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=120)
    records = [replace(parsed(f"a {group}"), group=group) for group in "pqr"]
    assert run(consumer.process, records, lambda _: together.wait(), workers=3) == []


@BOTH_WAYS
@pytest.mark.parametrize("workers", [None, 1, 4])
@given(groups=st.lists(st.sampled_from("abc"), max_size=10), failing=st.sets(st.integers(0, 9)))
@settings(max_examples=30)
def test_group_is_done_up_to_its_first_failure(
    process: Process, workers: int | None, groups: list[str], failing: set[int]
) -> None:
    """The copies of a FIFO queue come as one message group; its rest returns with the record that failed."""
    records = [replace(parsed(str(at)), group=group) for at, group in enumerate(groups)]
    tried: list[int] = []

    def handle(each: Record[Any]) -> None:
        tried.append(int(each.body))
        if int(each.body) in failing:
            raise ValueError

    failed = run(process, records, stopping_groups(handle), workers)

    for group in set(groups):
        ours = [at for at, its in enumerate(groups) if its == group]
        stop = next((number for number, at in enumerate(ours) if at in failing), len(ours))
        assert [at for at in tried if groups[at] == group] == ours[: stop + 1]
        assert [int(body) for body in failed if groups[int(body)] == group] == ours[stop:], failed


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
