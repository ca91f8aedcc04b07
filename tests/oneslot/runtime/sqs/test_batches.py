"""A producer sends under one id until SQS confirms it, and a deletion repeats what SQS did not confirm."""

from typing import Any, cast

import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ParamValidationError, ReadTimeoutError

from oneslot.runtime.failures import THROTTLED
from oneslot.runtime.sqs.batches import BATCH_BYTES, delete_messages
from oneslot.runtime.sqs.producer import Accepted, NotAccepted, Outgoing, Producer, Refused
from tests.kits.consumer import service_error
from tests.kits.sqs import ACCEPTED, Entries, Fate, ScriptedSqs, Step, all_but, fail

TOO_LONG = "AWS.SimpleQueueService.BatchRequestTooLong"


def outgoing(*bodies: str, group: str | None = None) -> list[Outgoing]:
    return [Outgoing(f"id-{body}", body, group) for body in bodies]


def send(queue: ScriptedSqs, messages: list[Outgoing], within_seconds: float = 60) -> list[Accepted | Refused]:
    return Producer(queue, queue.url, queue.surroundings).send(messages, within_seconds=within_seconds)


def refused(settled: list[Accepted | Refused]) -> list[Refused]:
    return [result for result in settled if isinstance(result, Refused)]


def test_producer_sends_batches_of_ten_with_the_message_id() -> None:
    queue = ScriptedSqs()

    settled = send(queue, outgoing(*"abcdefghijk"))

    assert queue.attempts() == [list("abcdefghij"), ["k"]]
    assert [type(result) for result in settled] == [Accepted] * 11
    assert queue.batches[0][0] == {
        "Id": "0",
        "MessageBody": "a",
        "MessageAttributes": {"MessageDeduplicationId": {"DataType": "String", "StringValue": "id-a"}},
    }


@pytest.mark.parametrize("fate", [None, ("InternalError", False), *((code, True) for code in sorted(THROTTLED))])
def test_producer_retries_only_failed_entries_under_their_id(fate: Fate) -> None:
    queue = ScriptedSqs(all_but(1, fate), all_but(0, fate))

    settled = send(queue, outgoing("a", "b", "c"))

    assert queue.attempts() == [["a", "b", "c"], ["b"], ["b"]]
    assert queue.batches[2][0]["MessageAttributes"]["MessageDeduplicationId"]["StringValue"] == "id-b"
    assert len(settled) == 3
    assert queue.slept == [0.025, 0.05]


@pytest.mark.parametrize("error", [ReadTimeoutError(endpoint_url="https://sqs"), ConnectionResetError()], ids=repr)
def test_producer_retries_a_call_without_an_answer(error: Exception) -> None:
    queue = ScriptedSqs(fail(error))

    assert len(send(queue, outgoing("a", "b"))) == 2
    assert queue.attempts() == [["a", "b"], ["a", "b"]]


def test_producer_does_not_retry_a_refused_entry() -> None:
    queue = ScriptedSqs(all_but(1, ("InvalidMessageContents", True)))

    settled = send(queue, outgoing("a", "b", "c"))

    assert queue.attempts() == [["a", "b", "c"]]
    assert refused(settled) == [Refused(Outgoing("id-b", "b"), "InvalidMessageContents")]


def test_producer_raises_at_once_when_a_message_has_a_wrong_type() -> None:
    queue = ScriptedSqs(fail(ParamValidationError(report="Invalid type")))

    with pytest.raises(ParamValidationError):
        send(queue, outgoing("a"))

    assert queue.slept == []


def test_producer_names_unconfirmed_messages_when_time_is_up() -> None:
    last = ConnectTimeoutError(endpoint_url="https://sqs")
    queue = ScriptedSqs(all_but(1), *[fail(last)] * 100)

    with pytest.raises(NotAccepted, match="with the same ids") as raised:
        send(queue, outgoing("a", "b"), within_seconds=10)

    assert [message.body for message in raised.value.messages] == ["b"]
    assert [result.message.body for result in raised.value.settled] == ["a"]
    assert raised.value.__cause__ is last
    assert sum(queue.slept) < 10


def test_producer_names_the_one_copy_and_no_cause_when_the_last_call_was_answered() -> None:
    (message,) = outgoing("a")

    with pytest.raises(NotAccepted) as raised:
        send(ScriptedSqs(fail(service_error("InternalFailure")), all_but(0), fate=lambda _: None), [message, message])

    assert raised.value.messages == (message,)
    assert raised.value.settled == (Accepted(message, "sqs-1"),)
    assert raised.value.__cause__ is None


def test_producer_keeps_a_batch_below_the_limit_in_bytes() -> None:
    queue = ScriptedSqs()
    body = "x" * (BATCH_BYTES // 2 - 100)

    send(queue, [Outgoing(f"id-{number}", body) for number in range(3)])

    assert [len(call) for call in queue.batches] == [2, 1]


@pytest.mark.parametrize("code", ["MissingParameter", "InvalidParameterValue", TOO_LONG])
def test_producer_finds_the_message_that_fails_its_call(code: str) -> None:
    def step(entries: Entries) -> list[Fate]:
        if any(entry["MessageBody"] == "bad" for entry in entries):
            raise service_error(code)
        return [ACCEPTED] * len(entries)

    queue = ScriptedSqs(*[step] * 20)

    settled = send(queue, outgoing("a", "bad", *"cdefghijkl"))

    assert refused(settled) == [Refused(Outgoing("id-bad", "bad"), code)]
    assert len(settled) == 12
    assert queue.slept == []


def test_producer_sends_singly_what_is_too_long_together() -> None:
    queue = ScriptedSqs(fail(service_error(TOO_LONG)))  # a service with a lower limit than SQS's

    assert len(send(queue, outgoing("a", "b"))) == 2
    assert queue.attempts() == [["a", "b"], ["a"], ["b"]]


@pytest.mark.parametrize(
    "message",
    [
        {"body": "\ud800"},
        {"body": "", "attributes": {"name": "\ud800"}},
        *({"message_id": message_id, "body": ""} for message_id in ("", "a b", "x" * 129, "ä")),
    ],
)
def test_outgoing_is_rejected_without_its_text_when_sqs_would_not_carry_it(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"UTF-8|message_id") as raised:
        Outgoing(**{"message_id": "id", **message})

    assert not isinstance(raised.value, UnicodeError)  # which quotes the text


def test_outgoing_does_not_show_its_body() -> None:
    assert "secret" not in repr(Outgoing("id", "secret"))


def test_producer_keeps_order_in_a_group_when_an_entry_fails() -> None:
    queue = ScriptedSqs(all_but(0), fifo=True)

    send(queue, [*outgoing("a1", "a2", group="a"), *outgoing("b1", "b2", group="b")])

    assert queue.attempts() == [["a1", "b1"], ["a1", "b2"], ["a2"]]
    first = queue.batches[0][0]
    assert (first["MessageGroupId"], first["MessageDeduplicationId"]) == ("a", "id-a1")


def test_message_needs_a_group_when_the_queue_is_fifo() -> None:
    fifo, standard = ScriptedSqs(fifo=True), ScriptedSqs()

    with pytest.raises(ValueError, match="group"):
        send(fifo, outgoing("a"))
    send(standard, outgoing("a", "b", group="practice"))

    assert fifo.batches == []
    ((first, _),) = standard.batches
    assert (first["MessageGroupId"], "MessageDeduplicationId" in first) == ("practice", False)


UNREACHABLE = fail(EndpointConnectionError(endpoint_url="https://sqs"))


def delete(queue: ScriptedSqs, receipts: int, on_error: Any = lambda _: None) -> int:
    """Delete this many messages; return how many SQS deleted."""
    names = [f"receipt-{number}" for number in range(receipts)]
    client = cast("Any", queue)
    deletion = delete_messages(client, queue.url, names, queue.surroundings, within_ms=4_000, on_error=on_error)
    assert sorted([*deletion.deleted, *deletion.refused, *deletion.unconfirmed]) == list(range(receipts))
    return len(deletion.deleted)


@pytest.mark.parametrize(
    ("script", "receipts", "deleted", "calls"),
    [
        ([], 0, 0, []),
        ([], 23, 23, [10, 10, 3]),
        ([all_but(1, ("ReceiptHandleIsInvalid", True))], 3, 2, [3]),
        ([lambda _: [("InternalError", False), None, ACCEPTED], all_but(1)], 3, 3, [3, 2, 1]),
        ([all_but(0, ("RequestThrottled", True))], 1, 1, [1, 1]),
        ([UNREACHABLE], 1, 1, [1, 1]),
    ],
    ids=["none", "ten at a time", "stale receipt", "unconfirmed", "throttled", "unreachable"],
)
def test_delete_repeats_what_may_still_be_deleted(
    script: list[Step], receipts: int, deleted: int, calls: list[int]
) -> None:
    queue = ScriptedSqs(*script)
    assert delete(queue, receipts) == deleted
    assert [len(entries) for entries in queue.batches] == calls


@pytest.mark.parametrize(("step", "deleted"), [(all_but(0), 1), (UNREACHABLE, 0)], ids=["silent", "unreachable"])
def test_delete_gives_up_what_is_never_confirmed(step: Step, deleted: int) -> None:
    queue = ScriptedSqs(*[step] * 1_000)
    assert delete(queue, 2) == deleted
    assert 1 < sum(queue.slept) < 4


def test_delete_raises_without_a_taker_of_errors() -> None:
    with pytest.raises(EndpointConnectionError):
        delete(ScriptedSqs(UNREACHABLE), 1, on_error=None)
