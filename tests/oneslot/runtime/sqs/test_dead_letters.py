"""A look into the dead-letter queue: complete, without a patient, and without taking anything away."""

import json
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from lab.simulation.sqs.service import SQSService
from oneslot.runtime.record import Identity
from oneslot.runtime.sqs.dead_letters import RECEIVES_EXHAUSTED, Reading, identity_and_content, peek, waiting_behind
from oneslot.runtime.surroundings import Surroundings
from tests.kits.consumer import NHS_NUMBER, Intercepted, booking, raising, record
from tests.kits.moto_stack import MotoStack


def test_peek_returns_every_letter_and_keeps_it(moto_stack: MotoStack) -> None:
    bad = [record(booking(f"m-{number}", nhs_number="9990000019")) for number in range(25)]
    moto_stack.bench.deliver(*bad)
    url = moto_stack.target.outputs.dead_letter_queue_url
    for _ in range(2):
        letters = peek(moto_stack.bench.sqs, url)
        assert {letter.message_id for letter in letters} == {f"m-{number}" for number in range(25)}
        assert {letter.reason for letter in letters} == {"invalid_field"}
        assert {letter.original_sqs_message_id for letter in letters} == {each["messageId"] for each in bad}
    assert len(moto_stack.bench.dead_letters()) == 10, "they can be received at once"


@pytest.mark.parametrize("times", [0, 2], ids=["an empty answer first", "the same message twice"])
def test_peek_continues_after_one_answer_without_news(moto_stack: MotoStack, times: int) -> None:
    """SQS asks a sample of its servers, so an answer may be empty, or have messages seen before."""
    moto_stack.bench.deliver(record("not json"))
    sqs, url = moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url
    if times:
        seen = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])
        answers = iter([seen] * times)
    else:
        answers = iter([{"ResponseMetadata": {}}])

    def answer(**asked: Any) -> Any:
        return next(answers, None) or sqs.receive_message(**asked)

    client = SimpleNamespace(
        receive_message=answer, change_message_visibility_batch=sqs.change_message_visibility_batch
    )
    assert len(peek(client, url)) == 1  # type: ignore[arg-type]


def test_hidden_letters_of_a_standard_queue_are_counted(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed reader hides its messages for five minutes."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    moto_stack.bench.deliver(*[record(f"not json {number}") for number in range(3)])
    sqs, url = moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url
    assert waiting_behind(sqs, url, len(peek(sqs, url))) == 0
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2)
    letters = peek(sqs, url)
    assert (len(letters), waiting_behind(sqs, url, len(letters))) == (1, 2)


def test_hidden_count_waits_for_a_lagging_depth() -> None:
    """A message that was put back counts twice for a moment, as hidden and as visible."""
    waits: list[float] = []
    surroundings = Surroundings(sleep=waits.append)
    counts = iter([(3, 3), (3, 1), (3, 0), (3, 1), (9, 0), (9, 0), (9, 0), (9, 0), (9, 0)])

    def attributes(**_: object) -> dict[str, Any]:
        waiting, in_flight = next(counts)
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(waiting),
                "ApproximateNumberOfMessagesNotVisible": str(in_flight),
                "ApproximateNumberOfMessagesDelayed": "0",
            }
        }

    client: Any = SimpleNamespace(get_queue_attributes=attributes)
    assert (waiting_behind(client, "https://sqs.test/1/dead-letters", 3, surroundings), len(waits)) == (0, 2)
    assert waiting_behind(client, "https://sqs.test/1/dead-letters", 3, surroundings) == 1


def test_letter_has_no_earlier_reason_when_policy_moved_it(moto_stack: MotoStack) -> None:
    """SQS's move task brings a message back with the attributes that the consumer gave it; then its receives ran out.

    SQS names the queue from which it moved a message. The consumer's own messages have no such name.
    """
    bench = moto_stack.bench
    bench.deliver(sent := record(booking("m-1", practice="ZZZ999")))
    moved: set[str] = set()

    def receive(**asked: Any) -> Any:
        answer = bench.sqs.receive_message(**asked)
        for message in answer.get("Messages", []):
            message["Attributes"] |= dict.fromkeys(moved, "arn:aws:sqs:eu-west-2:123456789012:requests")
        return answer

    put_back = bench.sqs.change_message_visibility_batch
    client: Any = SimpleNamespace(receive_message=receive, change_message_visibility_batch=put_back)
    (quarantined,) = peek(client, moto_stack.target.outputs.dead_letter_queue_url)
    assert quarantined.reason == "unknown_practice"
    moved.add("DeadLetterQueueSourceArn")
    (exhausted,) = peek(client, moto_stack.target.outputs.dead_letter_queue_url)
    assert (exhausted.reason, exhausted.source_sqs_message_id) == (RECEIVES_EXHAUSTED, sent["messageId"])
    assert "ZZZ999" not in exhausted.detail
    assert "practice" not in exhausted.detail


@pytest.mark.parametrize("body", ["not json", json.dumps(booking(None)), json.dumps(booking(NHS_NUMBER))])
def test_letter_has_no_id_when_it_is_invalid_or_withheld(moto_stack: MotoStack, body: str) -> None:
    moto_stack.bench.deliver(record(body))
    url = moto_stack.target.outputs.dead_letter_queue_url
    (letter,) = peek(moto_stack.bench.sqs, url, withheld=lambda message_id: message_id == NHS_NUMBER)
    assert letter.message_id is None
    assert NHS_NUMBER not in repr(letter)


@pytest.mark.parametrize("body", ["plain text", '["pointer", {"s3Key": "k"}]'])
def test_letter_has_the_id_of_the_consumers_own_rule_when_its_body_is_no_object(
    moto_stack: MotoStack, body: str
) -> None:
    moto_stack.bench.sqs.send_message(QueueUrl=moto_stack.target.outputs.dead_letter_queue_url, MessageBody=body)
    (letter,) = peek(
        moto_stack.bench.sqs, moto_stack.target.outputs.dead_letter_queue_url, identity=lambda record: "o-7"
    )
    assert letter.message_id == "o-7"
    assert identity_and_content(lambda record: "o-7", {"Body": body}) == Identity("o-7", body)


def test_peek_puts_letters_back_when_interrupted(moto_stack: MotoStack) -> None:
    moto_stack.bench.deliver(record("not json"))

    def interrupt(_perform: object) -> None:
        # The first answer has arrived; the second does not.
        client._before["receive_message"] = raising(KeyboardInterrupt())

    client = Intercepted(moto_stack.bench.sqs, after={"receive_message": interrupt})
    with pytest.raises(KeyboardInterrupt):
        peek(client, moto_stack.target.outputs.dead_letter_queue_url)  # type: ignore[arg-type]
    assert client.calls[-1] == "change_message_visibility_batch"
    assert len(moto_stack.bench.dead_letters()) == 1


FAST = Surroundings(sleep=lambda _: None)
THROTTLED = {"Id": "0", "SenderFault": True, "Code": "RequestThrottled"}
INVALID = {"Id": "0", "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}


class FailingOnce:
    """An SQS client whose first answers to an operation are given; it performs only the entries without an answer."""

    def __init__(self, client: Any, operation: str, *answers: Any) -> None:
        self._client = client
        self._operation = operation
        self._answers = list(answers)
        self.entries: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return self._batch if name == self._operation else getattr(self._client, name)

    def _batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803 - boto3's own
        self.entries.append(len(Entries))
        if not self._answers:
            return getattr(self._client, self._operation)(QueueUrl=QueueUrl, Entries=Entries)
        failed = self._answers.pop(0)
        performed = getattr(self._client, self._operation)(QueueUrl=QueueUrl, Entries=Entries[1:])
        return {"Successful": performed["Successful"], "Failed": failed}


@pytest.mark.parametrize(
    ("failed", "calls"), [([THROTTLED], [3, 1]), ([], [3, 1]), ([INVALID], [3])], ids=["throttled", "left out", "final"]
)
def test_batch_is_repeated_unless_an_entry_is_final(moto_stack: MotoStack, failed: list[Any], calls: list[int]) -> None:
    bench, url = moto_stack.bench, moto_stack.target.outputs.dead_letter_queue_url
    bench.deliver(*[record(f"not json {number}") for number in range(3)])
    returning = FailingOnce(bench.sqs, "change_message_visibility_batch", failed)
    with Reading(returning, url, surroundings=FAST) as look:  # type: ignore[arg-type]
        assert [len(batch) for batch in look] == [3]

    deleting = FailingOnce(bench.sqs, "delete_message_batch", failed)
    with Reading(deleting, url, surroundings=FAST) as look:  # type: ignore[arg-type]
        seen = [held for batch in look for held in batch]
        gone = look.delete(seen)

    assert returning.entries == calls
    assert (len(seen), len(seen) - len(gone)) == ((3, 0) if calls[1:] else (2, 1))
    assert deleting.entries == [len(seen), *calls[1:]]


def test_reading_stops_repeating_when_sqs_stays_silent(moto_stack: MotoStack) -> None:
    slept: list[float] = []
    surroundings = Surroundings(now_ms=lambda: round(sum(slept) * 1000), sleep=slept.append, jitter=lambda: 1.0)
    moto_stack.bench.deliver(record("not json"))
    silent = Intercepted(moto_stack.bench.sqs)
    silent.__dict__["delete_message_batch"] = silent.__dict__["change_message_visibility_batch"] = lambda **_: {}
    with Reading(silent, moto_stack.target.outputs.dead_letter_queue_url, surroundings=surroundings) as look:  # type: ignore[arg-type]
        assert [look.delete(batch) for batch in look] == [[]]
    assert 10 < sum(slept) < 20


def test_peek_sees_the_whole_group_that_a_batch_cuts() -> None:
    """Ten fit into a batch: seven of one group and three of the next, whose others SQS then hides."""
    sqs: Any = SQSService(lambda: 0, Random(0))
    url = sqs.create_queue(QueueName="dead-letters.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for number in range(14):
        sqs.send_message(
            QueueUrl=url,
            MessageBody=json.dumps(booking(f"m-{number}")),
            MessageGroupId=f"group {number // 7}",
            MessageDeduplicationId=str(number),
        )

    assert [letter.message_id for letter in peek(sqs, url)] == [f"m-{number}" for number in range(14)]
    assert len(peek(sqs, url)) == 14
