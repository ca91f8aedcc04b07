"""Redrives: their pace, their entries, and what disturbs them. What is hidden is left, and the next redrive moves it."""

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from lab.simulation.sqs.service import SQSService
from oneslot.operator.repair.redrive import Pacer, Redrive, entry, redrive
from oneslot.runtime.sqs.dead_letters import EMPTY_ANSWERS, DeadLetter, HeldLetter, peek
from oneslot.runtime.surroundings import Surroundings
from tests.kits.consumer import Intercepted, Killed, raising
from tests.kits.moto_stack import MotoStack, put_bookings


def virtual() -> Surroundings:
    """Return surroundings in which a pause only moves the clock."""
    now = [1_800_000_000_000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds * 1000

    return Surroundings(now_ms=lambda: int(now[0]), sleep=sleep)


def visible(stack: MotoStack) -> int:
    return len(peek(stack.bench.sqs, stack.target.outputs.dead_letter_queue_url))


def accepted(stack: MotoStack) -> int:
    url = stack.target.outputs.queue_url
    attributes = stack.bench.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(attributes["Attributes"]["ApproximateNumberOfMessages"])


def run(stack: MotoStack, planned: frozenset[str], sqs: Any = None) -> Redrive:
    """Run a redrive, with this client."""
    one = Redrive(planned, 500.0, "run")
    redrive(stack.target_with(sqs or stack.bench.sqs, virtual()), one, lambda _: None)
    return one


class Reader:
    """Another reader, which hides the letters that it received."""

    def __init__(self, stack: MotoStack) -> None:
        self._sqs = stack.bench.sqs
        self._url = stack.target.outputs.dead_letter_queue_url
        self._receipts: list[str] = []

    def receive(self, count: int = 10) -> None:
        answer = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=count, VisibilityTimeout=300)
        self._receipts += [message["ReceiptHandle"] for message in answer["Messages"]]

    def put_back(self) -> None:
        for receipt in self._receipts:
            self._sqs.change_message_visibility(QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=0)

    def delete(self) -> None:
        for receipt in self._receipts:
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)


def putting_back(sqs: Any, reader: Reader) -> Any:
    """Return a client with which the reader returns its letters as a pass that finds none ends."""
    receives: list[Any] = []

    class Sqs:
        def __getattr__(self, name: str) -> Any:
            return getattr(sqs, name)

        def receive_message(self, **request: Any) -> Any:
            receives.append(sqs.receive_message(**request))
            if len(receives) == EMPTY_ANSWERS:
                reader.put_back()
            return receives[-1]

    return Sqs()


@pytest.mark.parametrize("error", [Killed(), ReadTimeoutError(endpoint_url="sqs")], ids=["killed", "answer lost"])
def test_next_redrive_finds_the_deleted_letters_gone_when_one_was_killed(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.HIDDEN_SECONDS", 0)  # five minutes have passed
    planned = put_bookings(moto_stack, 12)
    dying = Intercepted(moto_stack.bench.sqs, after={"delete_message_batch": raising(error)})
    with pytest.raises(type(error)):
        run(moto_stack, planned, dying)

    again = run(moto_stack, planned)

    assert (again.moved, again.taken, len(again.left), again.complete) == (2, 10, 0, True)
    assert (accepted(moto_stack), visible(moto_stack)) == (12, 0)


def test_next_redrive_leaves_letters_that_a_killed_one_hides(moto_stack: MotoStack) -> None:
    planned = put_bookings(moto_stack, 12)
    dying = Intercepted(moto_stack.bench.sqs, after={"send_message_batch": raising(Killed())})
    with suppress(Killed):
        run(moto_stack, planned, dying)

    again = run(moto_stack, planned)

    assert (again.moved, len(again.left), again.complete) == (2, 10, False)


def test_redrive_keeps_letters_that_a_reader_hid_before(moto_stack: MotoStack) -> None:
    """The reader returns them as the run's pass ends, so none is hidden after it."""
    planned = put_bookings(moto_stack, 3)
    reader = Reader(moto_stack)
    reader.receive()

    disturbed = run(moto_stack, planned, putting_back(moto_stack.bench.sqs, reader))
    again = run(moto_stack, planned)

    assert (disturbed.taken, len(disturbed.left)) == (0, 3)
    assert (again.moved, accepted(moto_stack)) == (3, 3)


def test_redrive_keeps_letters_that_a_reader_hides_since(moto_stack: MotoStack) -> None:
    planned = put_bookings(moto_stack, 3)
    reader = Reader(moto_stack)
    interrupted = Intercepted(moto_stack.bench.sqs, before={"receive_message": lambda _perform: reader.receive()})

    disturbed = run(moto_stack, planned, interrupted)
    reader.put_back()
    again = run(moto_stack, planned)

    assert (disturbed.taken, len(disturbed.left)) == (0, 3)
    assert (again.moved, accepted(moto_stack)) == (3, 3)


def test_redrive_moves_letters_that_were_hidden_for_a_pass(moto_stack: MotoStack) -> None:
    """Another reader begins after the look before the pass, and returns the letters before the look after it."""
    planned = put_bookings(moto_stack, 3)
    reader = Reader(moto_stack)
    sqs = putting_back(moto_stack.bench.sqs, reader)

    done = run(moto_stack, planned, Intercepted(sqs, before={"receive_message": lambda _perform: reader.receive()}))

    assert (done.moved, done.taken, accepted(moto_stack)) == (3, 0, 3)


def test_redrive_ends_when_another_operator_took_letters(moto_stack: MotoStack) -> None:
    planned = put_bookings(moto_stack, 3)
    other = Reader(moto_stack)
    other.receive(2)
    other.delete()

    done = run(moto_stack, planned)

    assert (done.moved, done.taken, len(done.left), done.complete) == (1, 2, 0, True)


@pytest.mark.parametrize("answer", ["refused", "left out"])
def test_next_redrive_sends_again_what_sqs_did_not_delete(moto_stack: MotoStack, answer: str) -> None:
    planned = put_bookings(moto_stack, 3)

    class Sqs:
        """Deletes all but the first entry."""

        def __getattr__(self, name: str) -> Any:
            return getattr(moto_stack.bench.sqs, name)

        def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803 - boto3's own
            failed = {"Id": Entries[0]["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
            done = Entries[1:] and moto_stack.bench.sqs.delete_message_batch(QueueUrl=QueueUrl, Entries=Entries[1:])
            return {**(done or {}), **({"Failed": [failed]} if answer == "refused" else {})}

    first = run(moto_stack, planned, Sqs())
    again = run(moto_stack, planned)

    assert (first.moved, len(first.left), first.complete) == (2, 1, False)
    assert (again.moved, again.complete, visible(moto_stack)) == (1, True, 0)
    assert accepted(moto_stack) == 4, "the ledger answers the second copy as a duplicate"


@pytest.mark.parametrize("answer", ["Failed", "Successful"])
def test_second_pass_only_deletes_what_the_first_one_sent(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """SQS refused a deletion, or confirmed it and shows the letter again. A letter that another operator took adds a pass."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.HIDDEN_SECONDS", 0)  # five minutes have passed
    planned = put_bookings(moto_stack, 3)
    receipts: list[str] = []

    class Sqs:
        def __getattr__(self, name: str) -> Any:
            return getattr(moto_stack.bench.sqs, name)

        def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803 - boto3's own
            receipts.extend(entry["ReceiptHandle"] for entry in Entries)
            if len(receipts) > len(planned):
                return moto_stack.bench.sqs.delete_message_batch(QueueUrl=QueueUrl, Entries=Entries)
            done = moto_stack.bench.sqs.delete_message_batch(QueueUrl=QueueUrl, Entries=Entries[1:])
            first = {"Id": Entries[0]["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
            return {**done, answer: [*done.get(answer, ()), first]}

    done = run(moto_stack, planned | {"a letter that another operator took"}, Sqs())

    assert (done.moved, done.taken, done.complete) == (3, 1, True)
    assert (accepted(moto_stack), visible(moto_stack)) == (3, 0)


def test_redrive_ends_when_more_letters_wait_behind_a_group(moto_stack: MotoStack) -> None:
    """A FIFO queue shows ten letters of a group; those behind them are never planned, and no reader hides them."""
    sqs: Any = SQSService(lambda: 0, Random(0))
    urls = {
        name: sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        for name in ("queue_url", "dead_letter_queue_url")
    }
    for number in range(12):
        sqs.send_message(
            QueueUrl=urls["dead_letter_queue_url"],
            MessageBody=str(number),
            MessageGroupId="group",
            MessageDeduplicationId=str(number),
        )
    target = moto_stack.target_with(sqs, virtual())
    target = replace(target, outputs=replace(target.outputs, **urls))
    one = Redrive(frozenset({"a deleted letter"}), 500.0, "run")

    redrive(target, one, lambda _: None)

    assert (one.taken, len(one.left)) == (1, 0)


def test_redrive_holds_its_rate(moto_stack: MotoStack) -> None:
    slept: list[float] = [0.0]
    target = replace(moto_stack.target, surroundings=Surroundings(steady=lambda: sum(slept), sleep=slept.append))
    one = Redrive(put_bookings(moto_stack, 25), 5.0, "run")
    redrive(target, one, lambda _: None)
    assert one.moved == 25
    assert slept[1:] == [2.0, 2.0]


def test_pacer_makes_up_for_one_second_after_a_stall() -> None:
    slept: list[float] = []
    stalled = 0.0
    pacer = Pacer(5.0, Surroundings(steady=lambda: sum(slept) + stalled, sleep=slept.append))
    pacer.wait(10)
    stalled = 60.0
    for _ in range(4):
        pacer.wait(10)
    assert slept == [1.0, 2.0, 2.0]


LETTER = HeldLetter(DeadLetter("s-1", None, "r", "d", None, 0), "receipt", "secret", {}, {"MessageGroupId": "A81001"})


@pytest.mark.parametrize("fifo", [True, False])
def test_entry_has_an_id_of_the_run_on_fifo_only(fifo: bool) -> None:
    made = entry(LETTER, run="run", fifo=fifo)

    assert made.parameters["MessageGroupId"] == "A81001"
    assert made.parameters.get("MessageDeduplicationId") == ("run-s-1" if fifo else None)
    assert made.ordered == ("A81001" if fifo else None)


def test_held_letter_does_not_show_its_body() -> None:
    assert "secret" not in repr(LETTER)


@pytest.mark.parametrize(
    ("message_id", "reason", "own_rule", "attributes", "stays"),
    [
        (None, "receives_exhausted", False, 7, True),
        (None, "receives_exhausted", False, 8, False),  # SQS takes ten
        ("m", "invalid_message_id", False, 0, True),
        *(("m", reason, True, 0, True) for reason in ("receives_exhausted", "no_order_number")),
        *(("m", reason, False, 0, False) for reason in ("receives_exhausted", "conflict")),
    ],
)
def test_entry_keeps_the_first_sqs_id_when_the_consumer_may_have_found_no_id(
    message_id: str | None, reason: str, own_rule: bool, attributes: int, stays: bool
) -> None:
    own = {f"Name{number}": {"DataType": "String", "StringValue": "own"} for number in range(attributes)}
    letter = DeadLetter("s-2", message_id, reason, "d", "s-1", 0)
    made = entry(HeldLetter(letter, "receipt", "body", own, {}, own_rule), run="run", fifo=False)
    sent = {name: each["StringValue"] for name, each in made.parameters.get("MessageAttributes", {}).items()}
    left = {"QuarantineReason": reason, "QuarantineDetail": "d", "SourceMessageId": "s-1"} if stays else {}
    assert sent == dict.fromkeys(own, "own") | left
