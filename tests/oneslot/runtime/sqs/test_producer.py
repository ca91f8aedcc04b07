"""Sending until accepted: which entries are sent again, with which id, and when it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from oneslot.runtime.sqs.producer import BATCH_BYTES, Accepted, NotAccepted, Outgoing, Producer, Refused
from tests.kits.consumer import Bench, bench, booking, record
from tests.kits.sqs import Answer, Entries, ScriptedSqs, accept, all_but, fail


def service_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "for the test"}}, "SendMessageBatch")


class Queue:
    """A scripted queue with a virtual clock, and a producer that sends to it."""

    def __init__(self, *answers: Answer, fifo: bool = False) -> None:
        self._sqs = ScriptedSqs(*answers)
        self.slept: list[float] = []
        self.time = 0.0
        self.url = "https://sqs/queue.fifo" if fifo else "https://sqs/queue"

    @property
    def calls(self) -> list[Entries]:
        """The entries of each batch."""
        assert all(request["QueueUrl"] == self.url for request in self._sqs.requests)
        return [request["Entries"] for request in self._sqs.requests]

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def producer(self) -> Producer:
        return Producer(self._sqs, self.url, now=lambda: self.time, sleep=self.sleep, jitter=lambda: 1.0)

    def bodies(self) -> list[list[str]]:
        return [[entry["MessageBody"] for entry in call] for call in self.calls]


def outgoing(*bodies: str, group: str | None = None) -> list[Outgoing]:
    return [Outgoing(f"id-{body}", body, group) for body in bodies]


def test_messages_go_in_batches_of_ten_with_their_identity() -> None:
    queue = Queue()
    settled = queue.producer().send(outgoing(*"abcdefghijk"))
    assert queue.bodies() == [list("abcdefghij"), ["k"]]
    assert [type(outcome) for outcome in settled] == [Accepted] * 11
    assert queue.calls[0][0] == {
        "Id": "0",
        "MessageBody": "a",
        "MessageAttributes": {"MessageDeduplicationId": {"DataType": "String", "StringValue": "id-a"}},
    }


@pytest.mark.parametrize("failure", [{}, {"Code": "InternalError", "SenderFault": False}])
def test_only_what_was_not_accepted_is_sent_again_with_the_same_id(failure: dict[str, Any]) -> None:
    queue = Queue(all_but(1, **failure), all_but(0, **failure))
    settled = queue.producer().send(outgoing("a", "b", "c"))
    assert queue.bodies() == [["a", "b", "c"], ["b"], ["b"]]
    ids = {entry["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] for entry in queue.calls[2]}
    assert ids == {"id-b"}
    assert {outcome.message.body: outcome.attempts for outcome in settled if isinstance(outcome, Accepted)} == {
        "a": 1,
        "b": 3,
        "c": 1,
    }
    assert queue.slept == [0.05, 0.1]


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="https://sqs"),
        ConnectTimeoutError(endpoint_url="https://sqs"),
        ConnectionResetError(),
        service_error("RequestThrottled"),
        service_error("InternalFailure"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_call_without_an_answer_is_made_again(error: Exception) -> None:
    queue = Queue(fail(error))
    assert len(queue.producer().send(outgoing("a", "b"))) == 2
    assert queue.bodies() == [["a", "b"], ["a", "b"]]


def test_what_the_queue_never_takes_does_not_hold_up_the_others() -> None:
    queue = Queue(all_but(1, Code="InvalidMessageContents", SenderFault=True))
    settled = queue.producer().send(outgoing("a", "b", "c"))
    assert queue.bodies() == [["a", "b", "c"]]
    assert [outcome for outcome in settled if isinstance(outcome, Refused)] == [
        Refused(Outgoing("id-b", "b"), "InvalidMessageContents")
    ]


def test_throttling_of_an_entry_is_not_taken_for_a_refusal() -> None:
    queue = Queue(all_but(0, Code="RequestThrottled", SenderFault=True))
    assert len(queue.producer().send(outgoing("a"))) == 1
    assert queue.bodies() == [["a"], ["a"]]


def test_a_queue_that_cannot_be_used_is_an_error_at_once() -> None:
    queue = Queue(fail(service_error("AccessDenied")))
    with pytest.raises(ClientError, match="AccessDenied"):
        queue.producer().send(outgoing("a"))
    assert queue.slept == []


@pytest.mark.parametrize("error", [NoCredentialsError(), ParamValidationError(report="Invalid type")])
def test_what_never_reached_the_queue_is_an_error_at_once(error: Exception) -> None:
    queue = Queue(fail(error))
    with pytest.raises(type(error)):
        queue.producer().send(outgoing("a"))
    assert queue.slept == []


def test_when_time_is_over_it_says_which_may_be_there_or_not() -> None:
    queue = Queue(*[all_but(1)] + [fail(service_error("InternalFailure"))] * 100)
    with pytest.raises(NotAccepted, match="with the same ids") as told:
        queue.producer().send(outgoing("a", "b"), within_seconds=10)
    assert [message.body for message in told.value.messages] == ["b"]
    assert [outcome.message.body for outcome in told.value.settled] == ["a"]
    assert queue.time < 10


def test_when_time_is_over_it_says_what_the_last_call_failed_with() -> None:
    """A wrong endpoint, say: nothing else of it is ever told."""
    last = ConnectTimeoutError(endpoint_url="https://sqs")
    queue = Queue(fail(service_error("InternalFailure")), *[fail(last)] * 100)
    with pytest.raises(NotAccepted) as told:
        queue.producer().send(outgoing("a"), within_seconds=10)
    assert told.value.__cause__ is last


def test_an_error_that_was_followed_by_an_answer_is_no_cause() -> None:
    queue = Queue(fail(service_error("InternalFailure")), *[lambda entries: {}] * 100)
    with pytest.raises(NotAccepted) as told:
        queue.producer().send(outgoing("a"), within_seconds=10)
    assert told.value.__cause__ is None


def test_a_batch_stays_below_the_limit_in_bytes() -> None:
    queue = Queue()
    body = "x" * (BATCH_BYTES // 2 - 100)
    queue.producer().send([Outgoing(f"id-{number}", body) for number in range(3)])
    assert [len(call) for call in queue.calls] == [2, 1]


def test_one_that_is_too_long_by_itself_is_refused() -> None:
    code = "AWS.SimpleQueueService.BatchRequestTooLong"
    queue = Queue(fail(service_error(code)))
    assert queue.producer().send(outgoing("a")) == [Refused(Outgoing("id-a", "a"), code)]


@pytest.mark.parametrize(
    "code", ["MissingParameter", "InvalidParameterValue", "AWS.SimpleQueueService.BatchRequestTooLong"]
)
def test_one_that_spoils_its_whole_call_does_not_hold_up_the_others(code: str) -> None:
    def spoiled(entries: list[dict[str, Any]]) -> dict[str, Any]:
        if any(entry["MessageBody"] == "bad" for entry in entries):
            raise service_error(code)
        return accept(entries)

    queue = Queue(*[spoiled] * 20)
    settled = queue.producer().send(outgoing("a", "bad", "c", *"defghijkl"))
    assert [outcome for outcome in settled if isinstance(outcome, Refused)] == [
        Refused(Outgoing("id-bad", "bad"), code)
    ]
    assert len(settled) == 12
    assert queue.slept == []


def test_messages_that_are_too_long_together_are_sent_one_by_one() -> None:
    """Not every service takes as much in one call as SQS does by now."""
    queue = Queue(fail(service_error("AWS.SimpleQueueService.BatchRequestTooLong")))
    assert all(isinstance(outcome, Accepted) for outcome in queue.producer().send(outgoing("a", "b")))
    assert queue.bodies() == [["a", "b"], ["a"], ["b"]]


@pytest.mark.parametrize("broken", [{"body": "\ud800"}, {"body": "", "attributes": {"name": "\ud800"}}])
def test_text_that_is_none_is_refused_before_sending(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="UTF-8") as told:
        Outgoing("id", **broken)
    assert not isinstance(told.value, UnicodeError)  # whose text and arguments quote what was to be sent


def test_order_within_a_group_survives_a_failed_entry_on_a_fifo_queue() -> None:
    queue = Queue(all_but(0), fifo=True)
    messages = [*outgoing("a1", "a2", group="a"), *outgoing("b1", "b2", group="b")]
    queue.producer().send(messages)
    assert queue.bodies() == [["a1", "b1"], ["a1", "b2"], ["a2"]]
    first = queue.calls[0][0]
    assert (first["MessageGroupId"], first["MessageDeduplicationId"]) == ("a", "id-a1")


def test_a_fifo_queue_needs_groups() -> None:
    queue = Queue(fifo=True)
    with pytest.raises(ValueError, match="needs a group"):
        queue.producer().send(outgoing("a"))
    assert queue.calls == []


def test_a_group_on_a_standard_queue_is_passed_on_without_a_deduplication_id() -> None:
    queue = Queue()
    queue.producer().send(outgoing("a", "b", group="practice"))
    assert [len(call) for call in queue.calls] == [2]
    assert queue.calls[0][0]["MessageGroupId"] == "practice"
    assert "MessageDeduplicationId" not in queue.calls[0][0]


@pytest.mark.parametrize("message_id", ["", "a b", "x" * 129, "ä"])
def test_an_id_that_no_consumer_would_take_is_refused_before_sending(message_id: str) -> None:
    with pytest.raises(ValueError, match="message_id must be"):
        Outgoing(message_id, "body")


def test_a_body_is_not_shown() -> None:
    assert "secret" not in repr(Outgoing("id", "secret"))


def test_d_sent_twice_after_a_lost_answer_books_once() -> None:
    """The whole way: moto accepts, the answer is lost, it is sent again; the consumer sees two messages, one request."""
    with bench() as made:
        lost = [ReadTimeoutError(endpoint_url="https://sqs")]

        class Losing:
            def send_message_batch(self, **request: Any) -> Any:
                answer = made.sqs.send_message_batch(**request)
                if lost:
                    raise lost.pop()
                return answer

        body = json.dumps(booking(None))
        Producer(Losing(), made.configuration.queue_url, sleep=lambda _: None).send([Outgoing("m-1", body)])
        assert deliver_all(made) == 2
        assert sorted(made.outcomes) == ["booked", "duplicate"]
        assert sum(row["status"] == "busy" for row in made.rows("slots")) == 1


def deliver_all(made: Bench) -> int:
    """Deliver what is in the queue; returns how many messages those were."""
    answer = made.sqs.receive_message(
        QueueUrl=made.configuration.queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    for message in answer["Messages"]:
        attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
        assert made.deliver(record(message["Body"], attributes=attributes)) == []
    return len(answer["Messages"])
