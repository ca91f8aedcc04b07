"""Deletion of finished messages: batches, retries and refusals."""

import json
import threading
from typing import Any, cast

import pytest

from oneslot.runtime.surroundings import Surroundings
from oneslot.worker import acknowledgement
from oneslot.worker.acknowledgement import Acknowledgement
from oneslot.worker.job import InHand, Job, Shift
from oneslot.worker.log import WorkerLog
from oneslot.worker.settings import WorkerSettings
from tests.oneslot.worker.kit import Entries, FakeQueue, first, no_answer, refused


class Deletion:
    """The acknowledgement of messages that were received."""

    def __init__(self, *bodies: str, url: str = "url") -> None:
        self.queue = FakeQueue(list(bodies))
        self.lines: list[dict[str, Any]] = []
        self.log = WorkerLog(lambda line: self.lines.append(json.loads(line)))
        slept: list[float] = []
        surroundings = Surroundings(now_ms=lambda: round(sum(slept) * 1000), sleep=slept.append, jitter=lambda: 1.0)
        self.in_hand = InHand(surroundings)
        self.acknowledgement = Acknowledgement(
            Shift(
                client=cast("Any", self.queue),
                queue_url=url,
                settings=WorkerSettings(),
                in_hand=self.in_hand,
                log=self.log,
                surroundings=surroundings,
                stopping=threading.Event(),
            )
        )
        answer = self.queue.receive_message(MaxNumberOfMessages=10, VisibilityTimeout=40)
        self.jobs = [Job(message, 40.0, 900.0, 0.0, surroundings) for message in answer["Messages"]]
        for job in self.jobs:
            self.in_hand.add(job)


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


def test_delete_counts_and_drops_what_sqs_does_not_confirm() -> None:
    """Which entries are sent again, `sqs/test_batches.py` says."""
    deletion = Deletion("deleted", "refused", "silent")

    def answer(entries: Entries) -> dict[str, Any]:
        receipts = {entry["ReceiptHandle"]: entry for entry in entries}
        said = [receipts.get(job.receipt) for job in deletion.jobs]
        successful = [{"Id": said[0]["Id"]}] if said[0] else []
        return {"Successful": successful, "Failed": [refused(said[1])] if said[1] else []}

    unreachable = first(1, no_answer)
    deletion.queue.fail["delete"] = lambda entries: unreachable(entries) or answer(entries)
    deletion.acknowledgement.delete(deletion.jobs)

    counts = deletion.log.counts
    assert counts["delete_retries"] > 3
    assert [counts[f"delete{name}"] for name in ("d", "_refused", "_unconfirmed")] == [1, 1, 1]
    assert deletion.in_hand.all() == []
    reasons = [(line["event"], line.get("reason", line.get("error"))) for line in deletion.lines]
    assert reasons == [
        ("delete_error", "EndpointConnectionError"),
        ("not_deleted", "ReceiptHandleIsInvalid"),
        ("not_deleted", "not confirmed"),
    ]


def test_delete_skips_a_lost_message() -> None:
    deletion = Deletion("a", "b")
    deletion.jobs[0].lost = True

    deletion.acknowledgement.delete(deletion.jobs)

    assert list(deletion.queue.receives()) == ["a"]
    assert deletion.in_hand.all() == []
