"""Sending to a FIFO queue: the order of a group is kept whatever the queue refuses, and no copy is taken for another."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from oneslot.sending.archive import Archive
from oneslot.sending.messages import Archived, Message
from oneslot.sending.pacing import Pacing
from oneslot.sending.sender import BatchSender, send_all
from tests.oneslot.sending.test_sender import Fate, messages

URL = "https://sqs.eu-west-2.amazonaws.com/111122223333/requests.fifo"


class FifoQueue:
    """Accepts entries as it is told to, and keeps every attempt."""

    def __init__(self, fate: Fate = lambda _: "ok") -> None:
        self.accepted: list[dict[str, Any]] = []
        self.attempts: list[dict[str, Any]] = []
        self.calls: list[int] = []
        self._fate = fate

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == URL
        self.calls.append(len(Entries))
        answer: dict[str, Any] = {"Successful": []}
        for entry in Entries:
            self.attempts.append(entry)
            if self._fate(len(self.attempts)) == "ok":
                self.accepted.append(entry)
                answer["Successful"].append({"Id": entry["Id"], "MessageId": f"sqs-{len(self.accepted)}"})
        return answer

    def bodies(self, group: str) -> list[str]:
        """What was accepted of a group, in its order."""
        return [entry["MessageBody"] for entry in self.accepted if entry["MessageGroupId"] == group]


def message(body: str, group: str | None = None) -> Message:
    return Message(body, Archived(body), 0, group=group)


def send(queue: FifoQueue, stream: list[Message]) -> list[float]:
    """Send as one batch; returns the pauses."""
    pauses = list[float]()
    accepted, _ = BatchSender(queue, URL, sleep=pauses.append, jitter=lambda: 1.0).send(stream)  # type: ignore[arg-type]
    assert sorted(entry.message.body for entry in accepted) == sorted(one.body for one in stream)
    return pauses


def test_of_a_group_one_message_goes_at_a_time() -> None:
    """More of them than there are attempts, and without a pause: nothing was refused."""
    queue = FifoQueue()
    assert send(queue, [message(str(number), "A") for number in range(10)]) == []
    assert queue.calls == [1] * 10
    assert queue.bodies("A") == [str(number) for number in range(10)]


def test_a_refused_message_holds_up_its_own_group_only() -> None:
    queue = FifoQueue(lambda attempt: "vanished" if attempt in (1, 3) else "ok")
    pauses = send(queue, [message(f"{group}{number}", group) for number in range(3) for group in "AB"])
    assert (queue.bodies("A"), queue.bodies("B")) == (["A0", "A1", "A2"], ["B0", "B1", "B2"])
    assert len(pauses) == 2
    assert [entry["MessageBody"] for entry in queue.attempts[:6]] == ["A0", "B0", "A0", "B1", "A0", "B2"]


def test_a_copy_keeps_its_deduplication_id_in_every_attempt_and_no_other_copy_has_it() -> None:
    """Otherwise SQS would take a copy twice, or drop one, within its five minutes."""
    queue = FifoQueue(lambda attempt: "vanished" if attempt == 1 else "ok")
    send(queue, [message("same", "A"), message("same", "A"), message("same", "B")])
    send(queue, [message("same", "A")])
    ids = [entry["MessageDeduplicationId"] for entry in queue.attempts]
    assert len(queue.accepted) == len({entry["MessageDeduplicationId"] for entry in queue.accepted}) == 4
    assert len(ids) == 5
    assert set(ids) == {entry["MessageDeduplicationId"] for entry in queue.accepted}


def test_messages_without_a_group_wait_for_none() -> None:
    queue = FifoQueue()
    send(queue, [message("one"), message("two"), message("three", "A")])
    assert queue.calls == [3]
    groups = {entry["MessageBody"]: entry["MessageGroupId"] for entry in queue.accepted}
    assert groups["three"] == "A"
    assert len(set(groups.values())) == 3
    assert all(groups.values())


def test_one_batch_goes_at_a_time(tmp_path: Path) -> None:
    class Busy(FifoQueue):
        lock = threading.Lock()

        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            assert self.lock.acquire(blocking=False), "another call has not been answered yet"
            time.sleep(0.005)
            try:
                return super().send_message_batch(**request)
            finally:
                self.lock.release()

    queue = Busy()
    with Archive(tmp_path / "accepted.jsonl") as archive:
        sender = BatchSender(queue, URL)  # type: ignore[arg-type]
        assert sender.fifo
        send_all(messages(40), sender, archive, Pacing(None, 40), progress=lambda _: None)
    assert queue.bodies("Z00001") == [f'{{"n": {number}}}' for number in range(40)]
