"""Disturbed redrives: the next run ends each, without a loss, and sends only what the journal does not have."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from lab.simulation.sqs.service import SQSService
from oneslot.operator.repair.journal import begin_journal, open_journal
from oneslot.operator.repair.redrive import Redriven, redrive
from oneslot.runtime.sqs.dead_letters import EMPTY_ANSWERS, peek
from oneslot.runtime.surroundings import Surroundings
from tests.kits.consumer import Intercepted, Killed, raising
from tests.kits.dead_letters import put_bookings
from tests.kits.moto_stack import MotoStack


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


def begin(stack: MotoStack, count: int) -> None:
    """Put letters, and begin the redrive of all."""
    begin_journal(stack.target, put_bookings(stack, count), 500.0, {})


def run(stack: MotoStack, sqs: Any = None) -> Redriven:
    """Run the redrive once, with this client."""
    target = stack.target_with(sqs or stack.bench.sqs, virtual())
    journal = open_journal(target)
    assert journal is not None
    return redrive(target, journal, lambda _: None)


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


@pytest.mark.parametrize("error", [Killed(), ReadTimeoutError(endpoint_url="sqs")], ids=["killed", "answer lost"])
def test_resume_ends_when_a_deletion_was_not_noted(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.HIDDEN_SECONDS", 0)  # five minutes have passed
    begin(moto_stack, 12)
    dying = Intercepted(moto_stack.bench.sqs, after={"delete_message_batch": raising(error)})
    with pytest.raises(type(error)):
        run(moto_stack, dying)

    resumed = run(moto_stack)

    assert (resumed.moved, resumed.taken, resumed.left, resumed.complete) == (12, 0, 0, True)
    assert (accepted(moto_stack), visible(moto_stack)) == (12, 0)
    assert open_journal(moto_stack.target) is None
    assert resumed.journal.parent.name == "redrives"


def test_resume_waits_when_a_killed_run_hides_letters(moto_stack: MotoStack) -> None:
    begin(moto_stack, 12)
    dying = Intercepted(moto_stack.bench.sqs, after={"send_message_batch": raising(Killed())})
    with suppress(Killed):
        run(moto_stack, dying)

    resumed = run(moto_stack)

    assert (resumed.moved, resumed.left, resumed.complete) == (2, 10, False)
    assert open_journal(moto_stack.target) is not None


def test_redrive_keeps_letters_that_a_reader_hid_before(moto_stack: MotoStack) -> None:
    """The reader returns them as the run's pass ends, so none is hidden after it."""
    begin(moto_stack, 3)
    reader = Reader(moto_stack)
    reader.receive()
    receives: list[Any] = []

    class Sqs:
        def __getattr__(self, name: str) -> Any:
            return getattr(moto_stack.bench.sqs, name)

        def receive_message(self, **request: Any) -> Any:
            receives.append(moto_stack.bench.sqs.receive_message(**request))
            if len(receives) == EMPTY_ANSWERS:
                reader.put_back()
            return receives[-1]

    disturbed = run(moto_stack, Sqs())
    resumed = run(moto_stack)

    assert (disturbed.taken, disturbed.left) == (0, 3)
    assert (resumed.moved, accepted(moto_stack)) == (3, 3)


def test_redrive_keeps_letters_that_a_reader_hides_since(moto_stack: MotoStack) -> None:
    begin(moto_stack, 3)
    reader = Reader(moto_stack)
    interrupted = Intercepted(moto_stack.bench.sqs, before={"receive_message": lambda _perform: reader.receive()})

    disturbed = run(moto_stack, interrupted)
    reader.put_back()
    resumed = run(moto_stack)

    assert (disturbed.taken, disturbed.left) == (0, 3)
    assert (resumed.moved, accepted(moto_stack)) == (3, 3)


def test_redrive_moves_letters_that_were_hidden_for_a_pass(moto_stack: MotoStack) -> None:
    """Another reader begins after the look before the pass, and returns the letters before the look after it."""
    begin(moto_stack, 3)
    reader = Reader(moto_stack)
    receives: list[Any] = []

    class Sqs:
        def __getattr__(self, name: str) -> Any:
            return getattr(moto_stack.bench.sqs, name)

        def receive_message(self, **request: Any) -> Any:
            if not receives:
                reader.receive()
            receives.append(moto_stack.bench.sqs.receive_message(**request))
            if len(receives) == EMPTY_ANSWERS:
                reader.put_back()
            return receives[-1]

    done = run(moto_stack, Sqs())

    assert (done.moved, done.taken, accepted(moto_stack)) == (3, 0, 3)


def test_redrive_ends_when_another_operator_took_letters(moto_stack: MotoStack) -> None:
    begin(moto_stack, 3)
    other = Reader(moto_stack)
    other.receive(2)
    other.delete()

    done = run(moto_stack)

    assert (done.moved, done.taken, done.left, done.complete) == (1, 2, 0, True)
    assert open_journal(moto_stack.target) is None


@pytest.mark.parametrize("answer", ["refused", "left out"])
def test_resume_only_deletes_what_sqs_did_not_delete(moto_stack: MotoStack, answer: str) -> None:
    begin(moto_stack, 3)

    class Sqs:
        """Deletes all but the first entry."""

        def __getattr__(self, name: str) -> Any:
            return getattr(moto_stack.bench.sqs, name)

        def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:  # noqa: N803 - boto3's own
            failed = {"Id": Entries[0]["Id"], "SenderFault": True, "Code": "ReceiptHandleIsInvalid"}
            done = Entries[1:] and moto_stack.bench.sqs.delete_message_batch(QueueUrl=QueueUrl, Entries=Entries[1:])
            return {**(done or {}), **({"Failed": [failed]} if answer == "refused" else {})}

    first = run(moto_stack, Sqs())
    resumed = run(moto_stack)

    assert (first.moved, first.left, first.complete) == (2, 1, False)
    assert (resumed.moved, resumed.complete, visible(moto_stack)) == (1, True, 0)
    assert accepted(moto_stack) == 3


def test_resume_deletes_a_letter_that_returned(moto_stack: MotoStack) -> None:
    """A server of SQS can miss a deletion."""
    begin(moto_stack, 2)
    journal = open_journal(moto_stack.target)
    assert journal is not None
    returned = min(journal.planned)
    journal.note_sent({returned: "its new id"})
    journal.note_deleted({returned})

    resumed = run(moto_stack)

    assert (resumed.moved, resumed.complete) == (1, True)
    assert (accepted(moto_stack), visible(moto_stack)) == (1, 0)


def test_resume_ends_when_more_letters_wait_behind_a_group(moto_stack: MotoStack) -> None:
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
    journal = begin_journal(target, frozenset({"a deleted letter"}), 500.0, {})
    journal.note_sent({"a deleted letter": "its new id"})

    done = redrive(target, journal, lambda _: None)

    assert (done.moved, done.left) == (1, 0)
