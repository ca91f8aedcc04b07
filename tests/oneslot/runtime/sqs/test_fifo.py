"""FIFO through the whole consumer: nothing overtakes within a message group, whatever fails."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pytest

from tests.kits.consumer import Intercepted, Killed, bench, booking, raising, record


def fifo(body: Any, group: str) -> dict[str, Any]:
    """A record as it comes from a FIFO queue."""
    made = record(body)
    made["eventSourceARN"] += ".fifo"
    made["attributes"] |= {"MessageGroupId": group, "SequenceNumber": "1", "MessageDeduplicationId": "d"}
    return made


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


def test_group_goes_on_after_its_quarantined_messages() -> None:
    """SQS drops a deduplication id that it has seen: two equal messages need two, and one that comes again needs its own."""
    with bench() as made:
        url = made.sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        consumer = made.another_consumer()
        consumer.queues = type(consumer.queues)(made.sqs, "unused", url, lambda: 0.0)
        bad = [fifo("not json", "p") for _ in range(2)]
        for _ in range(2):  # delivered again after a crash that followed the quarantine
            assert made.deliver(*bad, fifo(booking("m-1"), "p"), consumer=consumer) == []
        dead = made.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["All"]
        )["Messages"]
        assert [letter["Attributes"]["MessageGroupId"] for letter in dead] == ["p", "p"]
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
