"""FIFO: a failed record stops its own message group and no other, and nothing overtakes within a group."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneslot.runtime.consumer.consumer import process, stopping_groups
from oneslot.runtime.consumer.record import Record
from tests.kits.consumer import Intercepted, Killed, as_record, bench, booking, raising, record


def fifo(body: Any, group: str) -> dict[str, Any]:
    """A record as it comes from a FIFO queue."""
    made = record(body)
    made["eventSourceARN"] += ".fifo"
    made["attributes"] |= {"MessageGroupId": group, "SequenceNumber": "1", "MessageDeduplicationId": "d"}
    return made


def fair(body: Any, group: str) -> dict[str, Any]:
    """A record as it comes from a standard queue with fair queues."""
    made = record(body)
    made["attributes"]["MessageGroupId"] = group
    return made


def run(records: list[dict[str, Any]], failing: set[str], executor: ThreadPoolExecutor | None = None) -> Any:
    """Process; return the bodies in the order in which they were tried, and the positions reported as failed."""
    tried: list[str] = []
    lock = threading.Lock()

    def handle(record: Record[Any]) -> None:
        with lock:
            tried.append(record.body)
        if record.body in failing:
            raise ValueError

    parsed: list[Record[Any]] = [as_record(raw) for raw in records]
    response = process(parsed, stopping_groups(handle), executor, lambda _: False)
    failed = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
    return tried, [at for at, record in enumerate(records) if record["messageId"] in failed]


@pytest.fixture(params=[None, 1, 4])
def executor(request: pytest.FixtureRequest) -> Iterator[ThreadPoolExecutor | None]:
    if request.param is None:
        yield None
        return
    with ThreadPoolExecutor(request.param) as made:
        yield made


def test_a_failure_stops_the_rest_of_its_group_only(executor: ThreadPoolExecutor | None) -> None:
    records = [fifo(body, body[0]) for body in ("a1", "b1", "a2", "b2", "a3")]
    tried, failed = run(records, {"a2"}, executor)
    assert sorted(tried) == ["a1", "a2", "b1", "b2"]
    assert failed == [2, 4]


def test_failure_stops_no_group_when_the_queue_is_standard(executor: ThreadPoolExecutor | None) -> None:
    records = [fair(body, "practice") for body in ("a1", "a2", "a3")]
    tried, failed = run(records, {"a2"}, executor)
    assert sorted(tried) == ["a1", "a2", "a3"]
    assert failed == [1]


def wait(barrier: threading.Barrier) -> None:
    barrier.wait()


def test_groups_run_side_by_side() -> None:
    together = threading.Barrier(3, timeout=15)
    parsed: list[Record[Any]] = [as_record(fifo(body, body), "all the same") for body in "abc"]
    with ThreadPoolExecutor(3) as threads:
        assert process(parsed, lambda _: wait(together), threads, lambda _: False) == {"batchItemFailures": []}


@given(st.lists(st.sampled_from("abc"), max_size=10), st.sets(st.integers(0, 9)), st.booleans())
def test_group_is_done_up_to_its_first_failure(groups: list[str], failing: set[int], together: bool) -> None:
    records = [fifo(str(at), group) for at, group in enumerate(groups)]
    with ThreadPoolExecutor(3) as threads:
        tried, failed = run(records, {str(at) for at in failing}, threads if together else None)
    for group in set(groups):
        ours = [at for at, its in enumerate(groups) if its == group]
        stop = next((number for number, at in enumerate(ours) if at in failing), len(ours))
        assert [int(body) for body in tried if groups[int(body)] == group] == ours[: stop + 1]
        assert [at for at in failed if groups[at] == group] == ours[stop:]


def test_the_consumer_keeps_a_groups_order_through_a_failure() -> None:
    with bench(slots=3) as made:
        records = [fifo(booking(f"m-{number}"), group) for number, group in enumerate(("p", "p", "q"), 1)]
        refusing = made.another_consumer(
            dynamodb=Intercepted(made.dynamodb, before={"transact_write_items": raising(ConnectionResetError())})
        )
        assert made.deliver(*records, consumer=refusing) == [records[0]["messageId"], records[1]["messageId"]]
        assert [(line.message_id, line.outcome) for line in made.deliveries] == [("m-1", "failed"), ("m-3", "booked")]
        assert made.deliver(*records[:2]) == []
        assert [line.message_id for line in made.deliveries] == ["m-1", "m-3", "m-1", "m-2"]


def test_one_that_another_consumer_has_stops_its_group_too() -> None:
    """It is not done yet: whatever follows it in its group would be done before it."""
    with bench(slots=3) as made:
        records = [fifo(booking(f"m-{number}"), group) for number, group in enumerate(("p", "p", "q"), 1)]
        dying = made.another_consumer(
            dynamodb=Intercepted(made.dynamodb, before={"transact_write_items": raising(Killed())})
        )
        with pytest.raises(Killed):
            made.deliver(records[0], consumer=dying)
        hidden = made.another_consumer(sqs=Mock())
        assert made.deliver(*records, consumer=hidden) == [records[0]["messageId"], records[1]["messageId"]]
        assert [(line.message_id, line.outcome) for line in made.deliveries[1:]] == [("m-1", "busy"), ("m-3", "booked")]
        assert [row["message_id"] for row in made.rows("ledger") if row["status"] == "COMPLETE"] == ["m-3"]


def test_group_goes_on_after_a_quarantined_message() -> None:
    with bench() as made:
        url = made.sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        consumer = made.another_consumer()
        consumer.queues = type(consumer.queues)(made.sqs, "unused", url, lambda: 0.0)
        bad = fifo("not json", "p")
        for _ in range(2):  # delivered again after a crash that followed the quarantine
            assert made.deliver(bad, fifo(booking("m-1"), "p"), consumer=consumer) == []
        answer = made.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        (dead,) = answer["Messages"]
        assert dead["Attributes"]["MessageGroupId"] == "p"
        assert dead["MessageAttributes"]["SourceMessageId"]["StringValue"] == bad["messageId"]


def test_equal_unprocessable_messages_are_both_quarantined() -> None:
    """SQS drops what has a deduplication id that it has seen within five minutes: each needs one of its own."""
    with bench() as made:
        url = made.sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        consumer = made.another_consumer()
        consumer.queues = type(consumer.queues)(made.sqs, "unused", url, lambda: 0.0)
        bad = [fifo("not json", "p") for _ in range(2)]
        assert made.deliver(*bad, consumer=consumer) == []
        dead = made.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])["Messages"]
        sources = [letter["MessageAttributes"]["SourceMessageId"]["StringValue"] for letter in dead]
        assert sources == [one["messageId"] for one in bad]


class FifoQueue:
    """One FIFO queue's rules: a batch takes each group from its first message on, and a group in flight gives no more."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records

    def batch(self, chance: random.Random) -> list[dict[str, Any]]:
        groups = {record["attributes"]["MessageGroupId"] for record in self.records}
        chosen = chance.sample(sorted(groups), chance.randint(1, len(groups)))
        return [record for record in self.records if record["attributes"]["MessageGroupId"] in chosen][:10]

    def delete(self, batch: list[dict[str, Any]], failed: list[str]) -> None:
        done = {record["messageId"] for record in batch} - set(failed)
        self.records = [record for record in self.records if record["messageId"] not in done]


FAULTS = (Killed, ConnectionResetError)


@pytest.mark.parametrize("seed", range(3))
def test_order_is_kept_under_crashes_errors_and_duplicates(seed: int) -> None:
    """Each group's requests take effect in the order in which they were first sent, whatever happens in between."""
    chance = random.Random(seed)
    sent = [(f"{group}-{number}", group) for number in range(4) for group in "pqr"]
    copies = [fifo(booking(message_id), group) for message_id, group in sent for _ in range(chance.choice((1, 1, 2)))]
    with bench(slots=len(sent)) as made:
        queue = FifoQueue(copies)
        for attempt in range(400):
            if not queue.records:
                break
            batch = queue.batch(chance)
            call, moment = chance.choice(("update_item", "query", "transact_write_items")), chance.choice("ba")
            fault = {"before" if moment == "b" else "after": {call: raising(chance.choice(FAULTS)())}}
            faulty = Intercepted(made.dynamodb, **(fault if attempt < 60 and chance.random() < 0.6 else {}))
            try:
                queue.delete(batch, made.deliver(*batch, consumer=made.another_consumer(dynamodb=faulty)))
            except Killed:
                made.clock.now += 30_001
            made.clock.now += 1_000
        assert queue.records == []
        created = {row["appointment_id"]: row["created"] for row in made.rows("appointments")}
        completed = [line.message_id for line in made.deliveries if line.outcome in {"booked", "duplicate"}]
        for group in "pqr":
            ours = [message_id for message_id, its in sent if its == group]
            assert sorted(ours, key=lambda message_id: created[message_id]) == ours
            assert list(dict.fromkeys(name for name in completed if name in ours)) == ours
