"""Records side by side: order within a key, answers in the batch's order, failures one by one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from oneslot.runtime.consumer.batch import ConcurrentBatchProcessor
from tests.kits.consumer import record


def key_of(record: Mapping[str, Any]) -> str:
    return str(record["body"])[0]


def run(records: list[dict[str, Any]], handler: Any, workers: int | None) -> tuple[list[Any], list[str]]:
    executor = ThreadPoolExecutor(workers) if workers else None
    processor = ConcurrentBatchProcessor(key_of, executor)
    with processor(records, handler=handler):
        answers = processor.process()
    if executor:
        executor.shutdown()
    return answers, [str(failure["itemIdentifier"]) for failure in processor.response()["batchItemFailures"]]


def test_different_keys_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=15)
    _, failed = run([record(body) for body in "abc"], lambda record: together.wait(), workers=3)
    assert failed == []


@pytest.mark.parametrize("workers", [None, 1, 4])
def test_one_key_runs_in_order_and_answers_keep_the_batchs_order(workers: int | None) -> None:
    seen: list[str] = []

    def handler(record: SQSRecord) -> str:
        seen.append(record.body)
        return record.body

    bodies = ["a1", "b1", "a2", "c1", "b2", "a3"]
    answers, _ = run([record(body) for body in bodies], handler, workers)
    assert [answer[1] for answer in answers] == bodies
    for key in "abc":
        assert [body for body in seen if body[0] == key] == [body for body in bodies if body[0] == key]


@pytest.mark.parametrize("workers", [None, 4])
def test_only_the_failed_records_are_reported_even_if_all_fail(workers: int | None) -> None:
    def handler(record: SQSRecord) -> None:
        if "bad" in record.body:
            raise ValueError

    records = [record(body) for body in ("a bad", "b good", "c bad")]
    assert run(records, handler, workers)[1] == [records[0]["messageId"], records[2]["messageId"]]
    assert len(run(records[::2], handler, workers)[1]) == 2


def test_a_thread_keeps_nothing_from_one_record_to_the_next() -> None:
    left_behind: ContextVar[str] = ContextVar("left_behind", default="nothing")
    found: list[str] = []

    def handler(record: SQSRecord) -> None:
        found.append(left_behind.get())
        left_behind.set(record.body)

    run([record(body) for body in "abc"], handler, workers=1)
    assert found == ["nothing"] * 3


def test_what_is_answered_already_needs_no_thread() -> None:
    ran_in: dict[str, threading.Thread] = {}

    def handler(record: SQSRecord) -> str:
        ran_in[record.body] = threading.current_thread()
        return record.body

    bodies = ["a1 answered", "b1", "b2 answered", "c1 answered", "d1"]
    with ThreadPoolExecutor(2) as executor:
        processor = ConcurrentBatchProcessor(key_of, executor, lambda record: "answered" in record["body"])
        with processor([record(body) for body in bodies], handler=handler):
            answers = processor.process()
    assert [answer[1] for answer in answers] == bodies
    here = {body for body, thread in ran_in.items() if thread is threading.current_thread()}
    assert here == {"a1 answered", "c1 answered"}  # "b2" follows "b1", which has to wait


def test_one_key_needs_no_thread() -> None:
    """A batch of one record, most often: it runs where it is."""
    ran_in: list[threading.Thread] = []
    run([record("a1"), record("a2")], lambda record: ran_in.append(threading.current_thread()), workers=2)
    assert ran_in == [threading.current_thread()] * 2


def test_without_a_message_group_a_failure_holds_nothing_back() -> None:
    """Records of a standard queue with the same key: the second is tried, whatever became of the first."""
    tried: list[str] = []

    def handler(record: SQSRecord) -> None:
        tried.append(record.body)
        if record.body == "a1":
            raise ValueError("the first one")

    records = [record("a1"), record("a2")]
    _, failed = run(records, handler, None)
    assert (tried, failed) == (["a1", "a2"], [records[0]["messageId"]])
