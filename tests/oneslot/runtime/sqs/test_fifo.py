"""FIFO through the whole consumer: nothing overtakes within a message group, whatever fails."""

from __future__ import annotations

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


def test_message_of_a_fair_queue_keeps_its_group_when_it_is_quarantined() -> None:
    with bench() as made:
        sqs = Mock()
        fair = record("not json")
        fair["attributes"] |= {"MessageGroupId": "tenant-1"}

        assert made.deliver(fair, consumer=made.another_consumer(sqs=sqs)) == []

        (sent,) = sqs.send_message.call_args_list
        assert (sent.kwargs["MessageGroupId"], "MessageDeduplicationId" in sent.kwargs) == ("tenant-1", False)
