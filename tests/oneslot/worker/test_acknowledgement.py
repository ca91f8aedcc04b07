"""Deletion of finished messages: batches, retries and refusals."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from oneslot.runtime.releases import Releases
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker import acknowledgement
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.job import InHand, Job
from oneslot.worker.log import WorkerLog
from tests.oneslot.worker.kit import Entries, FakeQueue, first, no_answer, refused, throttled


class Deletion:
    """The acknowledgement of messages that were received."""

    def __init__(self, *bodies: str, url: str = "url") -> None:
        self.queue = FakeQueue(list(bodies))
        self.log = WorkerLog(lambda _: None)
        slept: list[float] = []
        surroundings = Surroundings(now_ms=lambda: round(sum(slept) * 1000), sleep=slept.append, jitter=lambda: 1.0)
        self.in_hand = InHand(surroundings)
        self.acknowledgement = Acknowledgement(
            cast("Any", self.queue),
            url,
            in_hand=self.in_hand,
            log=self.log,
            surroundings=surroundings,
            waiting=10,
        )
        answer = self.queue.receive_message(MaxNumberOfMessages=10, VisibilityTimeout=40)
        self.jobs = [Job(message, 40.0, 900.0, 0.0, Releases(surroundings)) for message in answer["Messages"]]
        for job in self.jobs:
            self.in_hand.add(job)


def unconfirmed(_: Entries) -> dict[str, Any]:
    return {}


def failed_inside(entries: Entries) -> dict[str, Any]:
    return {"Failed": [refused(entry, sender_fault=False) for entry in entries]}


def test_run_deletes_in_batches_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledgement, "LINGER_SECONDS", 60.0)
    deletion = Deletion(*"abcdefghij")
    thread = threading.Thread(target=deletion.acknowledgement.run)
    thread.start()

    for job in deletion.jobs:
        deletion.acknowledgement.add(job)
    deletion.acknowledgement.end(60)
    thread.join(60)

    assert deletion.queue.count("delete") == 1
    assert (deletion.queue.messages, deletion.in_hand.all()) == ([], [])


def test_run_deletes_at_once_when_the_queue_is_fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS holds back the group until then."""
    monkeypatch.setattr(acknowledgement, "LINGER_SECONDS", 600.0)
    deletion = Deletion("a", url="url.fifo")
    thread = threading.Thread(target=deletion.acknowledgement.run)
    thread.start()

    deletion.acknowledgement.add(deletion.jobs[0])

    assert deletion.in_hand.wait_until_empty(60)
    deletion.acknowledgement.end(60)
    thread.join(60)


def test_second_thread_deletes_when_the_first_one_waits_for_its_answer() -> None:
    deletion = Deletion("a", "b", url="url.fifo")
    first_waits, go_on = threading.Event(), threading.Event()

    def wait(entries: Entries) -> None:
        if entries[0]["ReceiptHandle"] == deletion.jobs[0].receipt:
            first_waits.set()
            go_on.wait(60)

    delete = deletion.queue.delete_message_batch
    deletion.queue.delete_message_batch = lambda **request: wait(request["Entries"]) or delete(**request)  # type: ignore[func-returns-value, method-assign]
    threads = [threading.Thread(target=deletion.acknowledgement.run) for _ in range(acknowledgement.DELETERS)]
    for thread in threads:
        thread.start()

    deletion.acknowledgement.add(deletion.jobs[0])
    first_waits.wait(60)
    deletion.acknowledgement.add(deletion.jobs[1])
    while len(deletion.queue.messages) == 2:
        threading.Event().wait(0.005)

    assert [message["body"] for message in deletion.queue.messages] == ["a"]
    go_on.set()
    deletion.acknowledgement.end(60)
    for thread in threads:
        thread.join(60)
    assert deletion.queue.messages == []


@pytest.mark.parametrize("failure", [failed_inside, unconfirmed, no_answer, throttled])
def test_delete_retries_when_sqs_does_not_confirm(failure: Any) -> None:
    deletion = Deletion("a")
    deletion.queue.fail["delete"] = first(2, failure)

    deletion.acknowledgement.delete(deletion.jobs)

    assert deletion.queue.messages == []
    assert deletion.log.counts["delete_retries"] == 2


def test_delete_does_not_retry_when_sqs_refuses() -> None:
    deletion = Deletion("a")
    deletion.queue.fail["delete"] = lambda entries: {"Failed": [refused(entry) for entry in entries]}

    deletion.acknowledgement.delete(deletion.jobs)

    assert deletion.queue.count("delete") == 1
    assert deletion.log.counts["delete_refused"] == 1


def test_delete_gives_up_when_time_is_over() -> None:
    deletion = Deletion("a")
    deletion.queue.fail["delete"] = no_answer

    deletion.acknowledgement.delete(deletion.jobs)

    assert deletion.queue.count("delete") == 1 + deletion.log.counts["delete_retries"] > 3
    assert (deletion.log.counts["delete_unconfirmed"], deletion.in_hand.all()) == (1, [])


def test_delete_skips_a_lost_message() -> None:
    deletion = Deletion("a", "b")
    deletion.jobs[0].lost = True

    deletion.acknowledgement.delete(deletion.jobs)

    assert list(deletion.queue.receives()) == ["a"]
    assert deletion.in_hand.all() == []
